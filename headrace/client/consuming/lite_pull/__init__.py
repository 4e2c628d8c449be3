"""The lite pull consumer: fetches in the background, and the program polls."""
