"""The credit unit, recent averages, the credit systems of the family, and what is granted for a workunit."""
