"""RocketMQ's form of our names: `read_queue_count` is `readQueueCount` on the wire, in files and in configuration."""


def camel_case(name: str) -> str:
    """Returns the camelCase form of a snake_case name."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)
