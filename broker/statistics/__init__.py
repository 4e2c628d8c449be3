"""RocketMQ's statistics for each topic, each group and the broker, by RocketMQ's names (admin spec 6)."""
