"""Following the head of a chain: the newest blocks go into the store at once, and alerts are evaluated as of each."""
