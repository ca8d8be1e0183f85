"""Reproduction of the tables and figures of Kondo, Anderson, McLeod (2007)."""
