"""Dead letters: messages that a consumer group could not consume, browsed, exported and sent again."""
