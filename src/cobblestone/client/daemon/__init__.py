"""The daemon, which owns all other parts and passes events and instructions between them and the core of decisions.

It may know every room; no room needs to know it.
"""
