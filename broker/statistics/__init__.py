"""What is counted for each topic, each group, and the broker: RocketMQ's statistics, by its names for them (admin spec 6)."""
