"""The self-hosted /v0 API over the engine: it authenticates, charges, computes and renders answers.

Main modules: ``app`` (assembles routes and middleware), ``run`` (starts the service), ``cache`` (cache of answers) and
``errors`` (error answers). Main packages: ``api`` (routes and answers), ``billing`` (keys and credits), ``middleware``
(rate and body limits), ``output`` (encoding), ``observability`` (log and metrics) and ``runtime`` (server processes).

``engine`` decides the contents of an answer, ``contract`` its shape and price. ``embedded`` is the pipeline's provider
in its own process.

This room may import the core, the engine, sources, analysis and the presentation. Operations and the command line
import it.
"""
