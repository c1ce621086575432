"""Reassignments: requests, proposals, stored plans, throttles, progress, cancellation."""
