"""Upkeep of a home folder: rebuild, repair, upgrade, move to a bucket, retry of failures, removal of old data.

Only ``retry_failures`` sends requests to the provider.
"""
