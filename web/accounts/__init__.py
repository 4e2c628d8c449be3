"""Accounts: the console's users, their sessions, and the audit log, in one SQLite file (`console.db`, mode 0600)."""
