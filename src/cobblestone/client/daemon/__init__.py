"""The daemon, which owns all other parts and passes events and instructions between them and the decision core.

It may know every room; no room needs to know it.
"""
