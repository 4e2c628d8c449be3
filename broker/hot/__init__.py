"""The frames that the broker takes in bulk, without making objects of them."""
