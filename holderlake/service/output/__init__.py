"""Rendering and encoding of answers, and the API description (OpenAPI).

What an answer contains is decided in ``api``; nothing here reads the store.
"""
