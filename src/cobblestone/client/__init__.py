"""The volunteer's side: a daemon that computes for any BOINC project.

It knows domain, wire, ops and the policies' core; not the server, its store or its libraries.
"""
