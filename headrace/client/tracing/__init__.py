"""Message trace."""
