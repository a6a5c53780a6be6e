"""Files of transfers: known layouts and exports, event logs, and any columns with a column map.

Bytes and formats are read in ``rows``; chain nodes in ``rpc``.
"""
