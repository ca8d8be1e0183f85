"""The computer and the volunteer's preferences: what may be used, and what projects are told about it.

It knows the records, the sandbox, and what a scheduler request says about a computer.
"""
