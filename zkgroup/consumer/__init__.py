"""A member's life: the pure machine that decides, the shell that acts, and the public classes."""
