"""Commands for volunteers: run, watch and control a client on this computer.

It knows the options that all commands share, and no other room.
"""
