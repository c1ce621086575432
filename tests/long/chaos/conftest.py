"""Brokers are forked from a process that has imported them; weakened ones are not."""

from tests.worlds.processes import preforked as preforked
