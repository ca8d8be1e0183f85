"""A virtual clock over ``policy.client`` and ``policy.dispatch``: what would happen on this host with that
policy?

The engine is event-driven: between two events all quantities change linearly, so nothing depends on a time
step.
"""
