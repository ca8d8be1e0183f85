"""Compares two policies on a whole set of scenarios: what one gains over the other, and where it loses.

It knows runs and reports; no other room knows it.
"""
