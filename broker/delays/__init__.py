"""Delay levels: messages that wait in SCHEDULE_TOPIC_XXXX until they are due (store spec 10)."""
