"""The exhaustive model of the group's recipes, and the tests that hold the production machine against it."""
