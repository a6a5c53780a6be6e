"""How transfers come into the store, and leave it, in memory that is bounded whatever their number.

``change`` is one import or roll back, step by step. ``sorting`` puts rows that come in order, token by token,
``judging`` tells which of them are new, ``numbering`` gives addresses their numbers; ``rows``, ``part_files`` and
``run_files`` write what is kept. ``piles`` and ``merging`` are how any of them works on more than fits into memory.
"""
