"""Calls of the project's API: the connection, jobs, batches, administration, keys.

Knows no packing and no apps.
"""
