"""Running tasks: slots, the shared segment, processes, and what their ends mean.

It knows the sandbox, and nothing of projects, schedulers or transfers.
"""
