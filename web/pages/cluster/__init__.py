"""Cluster: brokers and name servers, their configuration, and whether a broker accepts messages."""
