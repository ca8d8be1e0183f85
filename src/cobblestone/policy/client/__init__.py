"""What a volunteer's client should do next: scheduling, work fetch, estimates, shares.  Pure functions.

Two families live here.  The *published* policies of Kondo, Anderson and McLeod (2007), written
``CS2_WF2_WS2_JC2``, work with debts and one kind of processor; *today's* family works with recent estimated
credit and any number of resource types.
"""
