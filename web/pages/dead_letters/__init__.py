"""Dead letters: messages that a consumer group has given up, browsed, exported and sent again."""
