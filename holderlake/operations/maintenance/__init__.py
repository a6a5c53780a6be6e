"""Upkeep of a home folder.

``rebuild_lake`` and ``repair_partitions`` write the lake again from archived answers: as a whole, or its damaged
partitions. ``replay_commits`` repeats the commits, and ``replace_lake`` puts the new lake in the place of the old one.
``restore_ledger`` adds lost calls to the credit ledger. ``upgrade`` converts older formats, ``move_to_bucket`` copies
lake and archive, ``retention`` removes old data. ``retry_failures`` alone sends requests to the provider.
"""
