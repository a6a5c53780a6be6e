"""JSON-RPC calls: messages, endpoints with their errors, and failover between them.

The meaning of events and the store do not belong here.
"""
