"""What all parts of an account manager share: folder, open state, members, projects, the operator's verbs.

It knows ``store``, and no face.
"""
