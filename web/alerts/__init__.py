"""Alerts: rules that are evaluated on every sample, channels that notify people, and a record of what fired when."""
