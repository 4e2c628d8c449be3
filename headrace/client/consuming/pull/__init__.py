"""The pull consumer: every pull is the caller's."""
