"""The archive of paid answers: compressed files (segments), their index, and the requests behind each commit.

Requests and their retries belong in ``provider``, tables in ``decoding`` and ``lake``.
"""
