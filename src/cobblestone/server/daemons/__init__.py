"""The daemons, by the family's names.  Each wakes when there is something to do, and sweeps now and then as a safety net."""
