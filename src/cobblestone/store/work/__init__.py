"""Workunits and results from submission to archive: rows, steps of the life cycle, dispatch, batches, uploads.

It knows ``catalog`` (files), ``people`` (tokens of submitters) and ``engine``.
"""
