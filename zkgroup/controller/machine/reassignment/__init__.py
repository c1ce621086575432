"""Reassignments: the steps of one, the transactions of many, the request and the plans."""
