"""The routes of the API, one module for each resource; they parse parameters and call ``Meter.answer``.

``tokens``, ``addresses``, ``relationships`` and ``chains`` have the routes of the contract, ``pictures`` screenshots,
``extras`` our own routes under ``/v0/x/``, ``health`` routes for operators, and ``removed`` former paths. Computing,
charging and rendering belong in ``api``, ``billing`` and ``output``.
"""
