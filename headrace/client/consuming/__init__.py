"""What all consumers share: subscriptions, queue allocation, offsets, pulls. Each kind of consumer has its own room."""
