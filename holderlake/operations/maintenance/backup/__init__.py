"""Backups of a home that runs may use meanwhile, and their restore into an empty home.

Deleting old data of a home belongs in ``maintenance.retention``.
"""
