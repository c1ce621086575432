"""Paths of brokers and topics."""

from __future__ import annotations


def brokers_path() -> str:
    """The parent of everything that brokers and topics are made of."""
    return "/brokers"


def broker_ids_path() -> str:
    """Its children are the registered brokers."""
    return f"{brokers_path()}/ids"


def topics_path() -> str:
    """Its children are the topics."""
    return f"{brokers_path()}/topics"
