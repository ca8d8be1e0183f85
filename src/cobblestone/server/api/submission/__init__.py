"""Endpoints for submitters: apps, batches, jobs, files, signatures.

Knows the frame of endpoints, the operation of the project and its core; no other endpoint.
"""
