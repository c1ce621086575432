"""The exhaustive model of the group's recipes, and the code that compares the production machine with it."""
