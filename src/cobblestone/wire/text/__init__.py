"""Reading and writing BOINC's XML-like texts.

Knows the values of `domain` alone, and no message.
"""
