"""Alerts: what fires, what fired, the rules, and the channels that notify people."""
