"""Bytes to messages and back: the formats of the BOINC family, without sockets, files or clocks.

Rooms import downward: `client`, then `scheduler`, then `project`, then `text`.
"""
