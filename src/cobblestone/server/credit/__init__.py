"""Credit as the server grants it: claims and grants of the validator, averages, scales, and the audit of the ledger."""
