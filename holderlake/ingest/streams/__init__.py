"""Streams: one module for each set of tables that is fetched together. ``all`` lists them.

A stream holds requests and decoding functions; how they are carried out belongs to ``ingest``.
"""
