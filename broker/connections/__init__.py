"""A client's connection to the broker, and what every request passes through."""
