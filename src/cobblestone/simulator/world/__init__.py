"""What is simulated: scenarios, their random numbers, and the hosts of a population.  Plain values.

It knows the names and constants of policies, and nothing that runs.
"""
