"""Compare the warehouses of two homes: two providers, a provider and the own store, or two versions.

``compare`` matches the rows of both and names the cause of each difference; ``sql`` has the queries.
"""
