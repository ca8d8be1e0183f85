"""Operation of a project: creation, backup, checks, warnings, interventions, figures, explanations."""
