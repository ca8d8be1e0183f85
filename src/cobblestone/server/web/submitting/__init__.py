"""The pages "My work", for accounts that may submit jobs.

They call the handlers of the API with the account's own token, so rights, limits and checks are those of any program.
"""
