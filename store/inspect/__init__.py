"""Inspects a store without changing it: prints its contents (`dump`), and checks its integrity (`verify`).

Works on RocketMQ's stores and ours, 4.9 and (reading only) 5, running or stopped. Lengths are taken from the files.
"""
