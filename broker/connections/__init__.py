"""A client's connection to the broker, and the checks that every request passes."""
