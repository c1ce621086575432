"""Topics: list, describe, create, alter, delete, and waiting for the controller."""
