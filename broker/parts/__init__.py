"""What the broker process is put together from: a file for each group of parts that belong together.

Only `broker.broker` imports these. Each makes its parts, gives them what they use and no more, and says what it offers to the groups made after it.
"""
