"""The cluster as a client sees it: name servers, routes, connections, heartbeats."""
