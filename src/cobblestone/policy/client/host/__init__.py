"""What the volunteer and the computer allow: preferences, transfers, and the life of a task's process.

It knows the values of the core, and no scheduling policy.
"""
