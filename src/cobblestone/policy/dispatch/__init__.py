"""Which result goes to which host, and why not: match, plan class, quota, limits, reasons; also what is decided about reports."""
