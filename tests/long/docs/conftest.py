"""Commands of the pages come from a process that has imported them."""

from tests.worlds.processes import preforked as preforked
