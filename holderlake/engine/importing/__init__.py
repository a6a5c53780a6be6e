"""Import and roll back transfers, within a memory budget for any number of rows.

``change`` runs the steps: ``sort`` groups rows by token, ``deduplicate`` finds the new ones, ``address_ids`` numbers
addresses, ``rows`` and ``writers`` write files. ``spill``, ``merge`` and ``keys`` work on data larger than memory, and
``budget`` divides the memory. ``paths`` names an import's files, and ``free_space`` checks the disk. Reading files of
users belongs in ``sources``.
"""
