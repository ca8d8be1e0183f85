"""What exists: frozen values, ids, enums with the field's numbers, errors.  Pure."""
