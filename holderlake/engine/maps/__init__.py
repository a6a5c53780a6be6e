"""Maps as of any second: nodes, relationships, clusters, their evidence and changes, one map or many in a pass.

Balances, address details and concentration of single tokens are in ``holderlake.engine.queries``.
"""
