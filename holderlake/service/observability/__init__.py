"""What an operator sees of a running service: an id for each request, one log line a request, and metrics.

Nothing that a caller sends is shown but a request id that looks like one: people put secrets in paths and headers.
"""

from holderlake.service.observability.log import Log, log_config
from holderlake.service.observability.metrics import Metrics
from holderlake.service.observability.middleware import Observed
from holderlake.service.observability.observation import Observation, observation

__all__ = ["Log", "Metrics", "Observation", "Observed", "log_config", "observation"]
