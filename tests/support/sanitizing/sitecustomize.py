"""Imported by Python at start with `support.sanitized.site()` in its path: all processes use the sanitized modules."""

from support import sanitized

sanitized.install()
