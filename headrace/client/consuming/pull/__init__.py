"""The pull consumer: the program makes each pull."""
