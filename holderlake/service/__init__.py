"""The self-hosted /v0 API over the engine: it authenticates, charges, computes and renders answers.

Main modules: ``app`` (assembles routes and middleware), ``run`` (starts the service), ``cache`` (cache of answers) and
``errors`` (error answers). Main packages: ``api`` (routes and answers), ``billing`` (keys and credits), ``middleware``
(rate and body limits), ``output`` (encoding), ``observability`` (log and metrics) and ``runtime`` (server processes).

``engine`` decides the contents of an answer, ``contract`` its shape and price. Nothing here imports a pipeline, an
asset or a client.
"""
