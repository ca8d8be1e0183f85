"""The credit laboratory: a benchmark of credit systems on worlds whose true work is known.

It knows the policies of credit and accounting, and plots of the simulator; no database of a project.
"""
