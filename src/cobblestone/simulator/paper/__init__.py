"""Reproduction of the tables and figures of Kondo, Anderson, McLeod (2007).

It knows runs, populations and reports; only the frontier knows it.
"""
