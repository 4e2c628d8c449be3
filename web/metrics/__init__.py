"""Metrics for Prometheus: RocketMQ 5's names, the exporter's on request, and the appliance's roles."""
