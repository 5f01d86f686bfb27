"""The numbers that drivers and adapters print, as tables: what each means, where the fault lies, what to do first.

The tables are the ``.toml`` files beside this module; `xid` and `verbs` read them.
"""
