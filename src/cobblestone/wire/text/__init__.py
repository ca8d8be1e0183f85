"""Reading and writing the family's XML-like texts.

Knows the values of `domain` alone, and no message.
"""
