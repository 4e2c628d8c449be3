"""Connected clients, their groups, offsets and queue locks, and the requests that change them."""
