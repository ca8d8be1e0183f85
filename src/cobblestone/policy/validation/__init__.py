"""Agreement of outputs, the canonical result, adaptive replication.

It knows domain and the bytes of outputs; it opens no file.
"""
