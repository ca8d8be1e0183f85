"""Credit systems as the benchmark drives them: adapters over the functions that the server runs.

They know the policy and the compiled replay, and nothing of populations, attacks or measures.
"""
