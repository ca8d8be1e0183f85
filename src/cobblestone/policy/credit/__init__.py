"""The credit unit, recent averages, BOINC's credit systems, and the grants for a workunit."""
