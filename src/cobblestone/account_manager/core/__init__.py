"""Common parts of an account manager: folder, open state, members, projects, the operator's actions.

It knows ``store``, and no face.
"""
