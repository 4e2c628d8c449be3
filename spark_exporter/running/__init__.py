"""Whole jobs: export, follow, verify, compact, status."""
