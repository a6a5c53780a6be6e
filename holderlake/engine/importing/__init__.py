"""Imports and roll backs of transfers, within a budget of memory for any number of rows.

``change`` does the steps: ``sort`` orders rows token by token, ``deduplicate`` finds the new ones, ``address_ids``
numbers addresses, ``rows`` and ``writers`` write files. ``spill`` and ``merge`` work on data larger than memory.
Reading files of users belongs in ``sources``.
"""
