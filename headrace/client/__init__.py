"""Clients: producers, consumers and administration, on asyncio. Programs import them from `headrace`, or from `headrace.sync` for use without await.

All are built on ClientInstance (cluster/instance.py), which holds what the clients with one client id share. Servers never import this package. Loggers
are named `headrace.…`; the program configures where they write.
"""

import logging

logging.getLogger("headrace").addHandler(logging.NullHandler())
