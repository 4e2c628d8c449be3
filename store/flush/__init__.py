"""The flush role: makes the CommitLog durable, and does nothing else, so that nobody waits for anything else."""
