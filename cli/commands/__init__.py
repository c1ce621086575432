"""The commands, one module a noun; the root imports a module when its command runs."""
