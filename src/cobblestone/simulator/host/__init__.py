"""One simulated host: engine, client, network, servers, and the accounts of its run.

It knows the world and the policies of clients and of dispatch.
"""
