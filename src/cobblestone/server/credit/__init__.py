"""Credit granted by the server: claims and grants of the validator, averages, scales, and the audit of the ledger."""
