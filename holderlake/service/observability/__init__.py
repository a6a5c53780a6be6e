"""Observability of a running service: request ids, one log line a request, and Prometheus metrics.

Nothing that a caller sends is logged or exported, except a well-formed request id: paths and headers may hold secrets.
"""

from holderlake.service.observability.log import Log, Observation, log_config, observation
from holderlake.service.observability.metrics import Metrics
from holderlake.service.observability.middleware import ObservabilityMiddleware

__all__ = ["Log", "Metrics", "ObservabilityMiddleware", "Observation", "log_config", "observation"]
