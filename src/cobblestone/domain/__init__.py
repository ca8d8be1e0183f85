"""The vocabulary of the domain: frozen values, ids, enums with BOINC's numbers, errors.  Pure."""
