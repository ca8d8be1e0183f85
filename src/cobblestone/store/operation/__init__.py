"""What operators and pages ask and do: figures, checks, audit log, processes, lists, ranks.

It knows all other rooms of the verbs, and no room knows it.
"""
