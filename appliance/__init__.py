"""The appliance: one supervisor, the roles it forks, and the `headrace` command.

It is imported by nobody. Only `role_table`, `boot` and `cli` know what the roles are; the rest knows roles by their names.
"""
