"""The clients that are connected, their groups, offsets and queue locks, and the requests that change them."""
