"""Writers of a store's files: parts of a token, and runs of the adjacency."""
