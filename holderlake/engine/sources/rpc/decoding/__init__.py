"""Transfer events of EVM chains as rows; also used for files of event logs.

Requests to nodes belong in ``client``.
"""
