"""The scheduler request and its reply, as the server and as the client read and write them.

Knows `project` and `text`.
"""
