"""Control of the client: people and programs over GUI RPC and JSON, and the account manager.

They all give the same commands, which are in the module ``control``.
"""
