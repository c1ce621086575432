"""The exhaustive model of the controller's election, and the code that compares the machine with it."""
