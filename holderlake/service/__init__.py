"""The self-hosted /v0 API over the engine: it authenticates, charges, computes and renders answers.

``engine`` decides the contents of an answer, ``contract`` its shape and price. Nothing here imports a pipeline, an
asset or a client.
"""
