"""Today's family: recent estimated credit, GPUs, limits, memory, fetch with hysteresis (CS4, WF4).

It knows the core and estimates of jobs, and of the published family the rules that both share.
"""
