"""The checker of brokers and controllers (S11-S17, L6, L7), from server logs and brokers' records."""
