"""The terminal display of a client; needs the extra ``tui``.

It knows the client's remote access; not the daemon.
"""
