"""Conversion of bytes to messages and back: the formats of BOINC, without sockets, files or clocks.

Rooms import downward: `client`, then `scheduler`, then `project`, then `text`.
"""
