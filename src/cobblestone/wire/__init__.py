"""Bytes to messages and back: the formats of the BOINC family, without sockets, files or clocks."""
