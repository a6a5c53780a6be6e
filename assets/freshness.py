"""Freshness of all tables: the schedule ``freshness`` checks it by the clock, whether or not anything was fetched."""

from holderlake.dagster.checks import freshness_checks
from holderlake.ingest.streams.all import STREAMS

freshness = freshness_checks(STREAMS)
