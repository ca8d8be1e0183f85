"""Our own policy (CS3, WF3): learn from jobs, give up what will be late, ask only for what can be in time.

It builds on the published and on today's family.
"""
