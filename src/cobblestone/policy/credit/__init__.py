"""The credit unit, recent averages, BOINC's credit systems, and the grants for a workunit.

It knows domain; the server, the lab and audits ask it.
"""
