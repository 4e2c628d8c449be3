"""Problems of consumer groups: different subscriptions, shared client ids, queues without an owner, lost messages."""
