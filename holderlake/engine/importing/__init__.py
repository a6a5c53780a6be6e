"""Import and roll back transfers of any number of rows within a memory budget.

``change`` runs the steps: ``sort`` groups rows by token, ``deduplicate`` finds the new rows, ``address_ids`` gives
numbers to addresses, ``rows`` and ``writers`` write files. ``spill``, ``merge`` and ``keys`` process data larger than
memory, and ``budget`` divides the memory among the steps. ``paths`` names an import's files, and ``free_space`` checks
the disk. Code that reads users' files belongs in ``sources``.
"""
