"""Decisions of an account manager: which computer works for which project, and what is counted of computers' reports.

It knows domain; no other policy asks it.
"""
