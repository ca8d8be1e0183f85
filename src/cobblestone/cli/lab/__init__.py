"""Commands for simulations, single and in sets.

It knows how commands print, and no other room.
"""
