"""The lite pull consumer: pulls ahead and is polled."""
