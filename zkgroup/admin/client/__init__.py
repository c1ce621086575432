"""The public `Admin` and `AsyncAdmin`, their methods by subject."""
