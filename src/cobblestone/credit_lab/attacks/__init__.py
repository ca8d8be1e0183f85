"""Attacks on credit: what a computer does whose owner cheats.

One function per behaviour, grouped by family; `catalogue` has them all.  They know nothing of the benchmark that calls them.
"""
