"""What answers the clients' requests: a file for each family."""
