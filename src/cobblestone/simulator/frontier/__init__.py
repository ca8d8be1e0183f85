"""Compares two policies on a whole set of scenarios: what one gains over the other, and where it loses."""
