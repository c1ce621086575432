"""The exhaustive model of the controller's election, and the tests that hold the machine against it."""
