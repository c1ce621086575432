"""The exhaustive model of the history of a group's rebalances (recipes 25)."""
