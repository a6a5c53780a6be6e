"""The archive of paid answers, and the record of which answers each commit to the lake was made from.

What the answers mean is the business of ``decoding``.
"""
