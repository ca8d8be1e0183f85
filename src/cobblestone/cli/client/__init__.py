"""Commands for volunteers: run a client on this computer, see and control it.

It knows the options that all commands share, and no other room.
"""
