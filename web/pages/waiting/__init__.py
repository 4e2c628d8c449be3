"""What waits: delayed messages, timer messages, and half messages of transactions."""
