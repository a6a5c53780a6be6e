"""What both sides of the API say: models, requests, prices, errors, tables and the text of instants.

Nothing here does I/O or knows of an engine, a service or a pipeline; every other room imports this one.
"""
