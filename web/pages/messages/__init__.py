"""Messages: found by id, key or time, and one message."""
