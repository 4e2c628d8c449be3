"""The table of topics, and their deletion."""
