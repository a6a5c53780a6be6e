"""``holderlake report``: a page about one token and period, in one file that needs nothing else.

``content`` gathers what it says, ``pictures`` draws, ``page`` writes it. What commands print stands in
``pipelines.cli.ingest.credits``.
"""
