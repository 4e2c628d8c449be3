"""Samples of the cluster and of the console's own appliance: the source of metrics, history and alerts. Nothing else reads them so often."""
