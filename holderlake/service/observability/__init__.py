"""Observability of a running service: request ids, one log line for each request, and Prometheus metrics.

Modules: ``middleware`` (observes each request), ``log`` (log lines) and ``prometheus`` (metrics). No text of a caller
is logged or published, except a well-formed request id, because paths and headers may contain secrets.
"""

from holderlake.service.observability.log import Log, Observation, log_config, observation
from holderlake.service.observability.middleware import ObservabilityMiddleware
from holderlake.service.observability.prometheus import Metrics

__all__ = ["Log", "Metrics", "ObservabilityMiddleware", "Observation", "log_config", "observation"]
