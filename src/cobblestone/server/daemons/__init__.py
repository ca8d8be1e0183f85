"""The daemons, named as in BOINC.  Each wakes when there is work, and sweeps at intervals as a safety net.

It knows the core, credit and the store; no request of a client and no page.
"""
