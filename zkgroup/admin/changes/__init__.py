"""Every change of an operator as an `AdminChange`, for `zkgroup.Admin` and the command line.

Each function reads and checks, and raises what forbids the change; it writes nothing. `AdminChange.apply`
does, after it has saved the undo record. Arguments called `progress` are called while a wait goes on.
"""
