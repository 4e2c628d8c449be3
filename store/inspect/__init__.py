"""Looks into a store without touching it: what it holds (`dump`), and whether it is whole (`verify`).

Works on RocketMQ's stores and ours, 4.9 and (reading only) 5, running or stopped. Lengths are taken from the files.
"""
