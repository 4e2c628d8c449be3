"""The push consumer: pulls in the background and calls a handler."""
