"""The push consumer: pulls ahead and calls a handler."""
