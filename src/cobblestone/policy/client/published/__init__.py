"""The published family (Kondo, Anderson, McLeod 2007): debts, one kind of processor, CS1/CS2, WF1/WF2.

It knows the core and estimates of jobs, and no other family.
"""
