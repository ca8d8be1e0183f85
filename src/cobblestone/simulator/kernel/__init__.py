"""Compiled: a run of the published policies over flat arrays, operation by operation as the policies' own functions do it.

Who changes one of those functions changes its twin here, too: ``tests/simulations/test_compiled_twins.py`` tells what was
forgotten.  The round-robin simulations are no twins: theirs are compiled as they are.  Jobs are named by their place in the
array of jobs.  The modules are compiled together, by `entry`.
"""
