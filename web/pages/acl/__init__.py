"""ACL: accounts, their permissions, and addresses that need no account, at the brokers of the cluster."""
