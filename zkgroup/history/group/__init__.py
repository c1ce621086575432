"""The checker of consumer groups (S1-S10, S22, L1-L4), from members' records and servers' logs."""
