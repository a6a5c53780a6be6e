"""Operations: everything that keeps a pipeline healthy for years.

Plans of backfills, healing, followers of a chain's head, maintenance of a home, ``doctor``, metrics, alerts, and
Dagster's history. ``dagster`` adds their jobs and sensors to the application.

This room may import the core, the engine, sources, the service, the presentation and scale. Only the command line
imports it.
"""
