"""Who may do what at a broker: the ACLs as last read, and a guard before each handler.

* `authorizer`: decisions, and the log lines of refusals
* `guards`: what a guard is, and the parts that guards share
* `record_guards`: guards of records, metadata and control requests
* `group_guards`: guards of groups and offsets
* `admin_guards`: guards of the requests that change or show the cluster
* `table`: the guard of each request, put before the handlers of a broker with an authorizer

A broker without an authorizer serves the table of handlers as it is.
"""
