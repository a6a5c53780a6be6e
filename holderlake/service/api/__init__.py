"""HTTP routes, metering, and the computation of answers from the engine.

Encoding of answers and the API description belong in ``output``; keys and credits in ``billing``.
"""
