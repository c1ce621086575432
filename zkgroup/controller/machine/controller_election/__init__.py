"""The election of the active controller: the elector, its transactions, its lease and its history."""
