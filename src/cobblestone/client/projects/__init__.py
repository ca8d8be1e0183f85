"""Work for projects: contacts with schedulers, file transfers, and jobs from their arrival to their report.

It knows the records, the conditions and the runner of tasks.  It decides nothing, and does not know who controls the client.
"""
