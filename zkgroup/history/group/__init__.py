"""The checker of consumer groups: S1-S10, S22 and L1-L4, from the members' records and the servers' logs."""
