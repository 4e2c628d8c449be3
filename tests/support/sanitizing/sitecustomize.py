"""Python imports this at its start where `support.sanitized.site()` is in its path: every process of an appliance then has the sanitized modules."""

from support import sanitized

sanitized.install()
