"""The files of a store as memory-mapped arrays: parts, adjacency, address numbers, and their checksums."""
