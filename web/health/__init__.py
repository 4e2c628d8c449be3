"""What machines ask without a login: whether the appliance is alive and ready, and where the name servers are."""
