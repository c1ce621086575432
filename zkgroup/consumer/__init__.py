"""Members and consumers of a group: the pure machine, the engine that performs its effects, the classes."""
