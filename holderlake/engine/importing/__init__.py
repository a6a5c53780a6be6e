"""Import and roll back transfers of any number of rows within a memory budget.

``change`` runs the steps: ``sort`` groups rows by token, ``deduplicate`` finds the new rows, ``address_ids`` gives
numbers to addresses, ``rows``, ``balance_files`` and ``run_writer`` write files. ``spill`` and ``keys`` process data
larger than memory, and ``budget`` divides the memory among the steps. ``paths`` names an import's files.
Code that reads users' files belongs in ``sources``.
"""
