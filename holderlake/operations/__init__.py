"""Operations: everything that keeps a pipeline healthy for years.

Plans of backfills, healing, maintenance of a home, ``doctor``, metrics and alerts. It may import all rooms except the
command line, which is the only room that imports it, besides the Dagster layer of the application.
"""
