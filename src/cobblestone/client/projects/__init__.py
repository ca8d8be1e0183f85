"""Work for projects: contacts with schedulers, file transfers, and jobs from their arrival to their report.

It knows the records and the runner of tasks; it decides nothing, and knows no one who controls the client.
"""
