"""What a backfill needs, what it costs and how far it is. Starting the run belongs in ``pipelines``."""
