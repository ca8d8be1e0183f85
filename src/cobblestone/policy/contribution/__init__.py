"""What computers give beside computing: storage and network.  Own units, own ledger, own averages; never added to credit."""
