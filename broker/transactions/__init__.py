"""Transactions: messages that are prepared first, then committed or rolled back (store spec 11)."""
