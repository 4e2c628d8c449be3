"""What an operator should know of consumer groups: members that disagree, ids that are not one client's, queues that nobody owns."""
