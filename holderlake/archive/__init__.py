"""The archive of paid answers: compressed segments, their index, and the provenance of commits.

Requests and their retries belong in ``provider``, tables in ``decoding`` and ``lake``.
"""
