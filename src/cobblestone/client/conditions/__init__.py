"""The computer and the volunteer's wishes: what may be used, and what projects are told of it.

It knows the records, the sandbox, and what a scheduler request says about a computer.
"""
