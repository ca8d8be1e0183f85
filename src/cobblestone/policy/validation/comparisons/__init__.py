"""The kinds of comparison rules, a module each, and their registry."""
