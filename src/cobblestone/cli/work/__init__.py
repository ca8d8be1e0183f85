"""Commands for scientists: apps, their versions, and jobs.

It knows the options that all commands share, and no other room.
"""
