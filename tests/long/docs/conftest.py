"""Runs commands of the pages in processes that are forked from one that has imported them."""

from tests.worlds.processes import preforked as preforked
