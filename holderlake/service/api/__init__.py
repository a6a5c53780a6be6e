"""HTTP routes, metering, and the computation of answers from the engine.

Main modules: ``metering`` (authenticates, charges and answers), ``answers`` and ``extra_answers`` (compute answers),
``screenshots`` (signed pictures), ``parameters`` (strict parsing) and ``backend`` (shared objects); ``routes`` has the
endpoints. Encoding of answers and the OpenAPI document belong in ``output``; keys and credits in
``billing``.
"""
