"""The daemons, named as in BOINC.  Each wakes when there is work, and sweeps at intervals as a safety net."""
