"""Freshness checks of all tables. The schedule ``freshness`` runs them at fixed times, even if no run fetched data."""

from holderlake.core.ingest.streams.all import STREAMS
from holderlake.dagster.checks import freshness_checks
from holderlake.dagster.resources import WORKSPACE

freshness = freshness_checks(STREAMS, resource=WORKSPACE)
