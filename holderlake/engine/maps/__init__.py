"""Maps as of any second: their nodes, relationships and clusters, for one instant or many at once.

``maps`` makes the tables of a map, ``batch`` those of many tokens and instants. Both use ``graph`` (with
``graph_input``), which finds magic nodes, ``time_nodes``, ``links`` and ``clusters``. ``relationships`` returns links
with addresses. ``evidence`` lists the links and transfers of a cluster. ``changes`` compares two instants, with
``lineage`` for clusters. Balances, address details and concentration of single tokens are in ``queries``.
"""
