"""Which result goes to which host, and why not; also who the host is, and what its reports mean."""
