"""Freshness checks of all tables. The schedule ``freshness`` runs them at fixed times, even if no run fetched data."""

from holderlake.dagster.checks import freshness_checks
from holderlake.dagster.resources import WORKSPACE
from holderlake.ingest.streams.all import STREAMS

freshness = freshness_checks(STREAMS, resource=WORKSPACE)
