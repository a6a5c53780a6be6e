"""Maps as of any second: their nodes, relationships and clusters, at one instant or at many.

``maps`` makes the tables of a token's maps, ``batch`` those of many tokens and instants. Both use ``graph``, which
finds magic nodes and time nodes, with ``links`` and ``clusters``; ``metrics`` has the concentration. ``relationships``
returns links with addresses as text. ``evidence`` lists the links and transfers of a cluster. Balances and address
details belong in ``queries``.
"""
