"""The self-hosted /v0 API over the engine: it authenticates, charges, computes and renders answers.

What an answer contains is decided by ``engine``, its shape and price by ``contract``. Nothing here imports a pipeline,
an asset or a client.
"""
