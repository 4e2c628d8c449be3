"""Messages that are delivered at any millisecond (docs/storage/timers.md)."""
