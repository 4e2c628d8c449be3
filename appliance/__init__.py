"""The appliance: one supervisor, the roles it forks, and the `headrace` command.

No package imports it. Only `role_table`, `boot` and `cli` depend on the individual roles; the rest handles roles by name.
"""
