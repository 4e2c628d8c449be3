"""Sending: one message, or one batch, to a broker, with retries. Producers, consumers and trace dispatchers use it."""
