"""The credit laboratory: replay of job logs, and comparison of credit systems.

It knows the policies of credit and accounting, and plots of the simulator; no database of a project.
"""
