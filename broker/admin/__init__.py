"""What operators' tools ask of the broker: one file a family of requests.

Each class is given what it uses, and `handlers()` says which request codes it answers. A refusal has RocketMQ's response code and a remark that
says why and what to do; a request that cannot be read is answered in `handling`.
"""
