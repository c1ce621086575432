"""Reads of consumer groups that members and operators share: snapshot, description, verification."""
