"""Operation of a project: creation, backup, checks, warnings, interventions, figures, explanations.

It knows the rooms below; pages, the API and commands ask it.
"""
