"""Which result goes to which host, and why not; also the identity of the host, and the handling of its reports.

It knows domain only; the server and the simulator ask it.
"""
