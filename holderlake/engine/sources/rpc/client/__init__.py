"""A chain's node over JSON-RPC: endpoints with failover, typed messages and errors."""
