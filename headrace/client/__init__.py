"""Clients: producers, consumers and administration, on asyncio. `headrace` exports what programs use; `headrace.sync` has the same without await.

Built on ClientInstance (instance.py), which holds what the members of one client id share. Never imported by the servers. Loggers are `headrace.…`;
nothing is written anywhere unless the program says where.
"""

import logging

logging.getLogger("headrace").addHandler(logging.NullHandler())
