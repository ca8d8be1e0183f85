"""Workunits and results from submission to archive: rows, steps of the life cycle, dispatch, batches, files."""
