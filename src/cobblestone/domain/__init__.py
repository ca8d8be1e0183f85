"""The vocabulary of the domain: frozen values, ids, enums with BOINC's numbers, errors.  Pure.

It knows the standard library's data types only.
"""
