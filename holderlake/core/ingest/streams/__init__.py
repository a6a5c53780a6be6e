"""Streams: one module for each family of tables that is fetched together. The module ``all`` lists the streams.

A stream defines requests and decoding functions; sending
and committing belong to ``ingest``.
"""
