"""The lake as Apache Iceberg tables, for engines that read these: the same Parquet files, linked and registered.

``publish`` writes snapshots. The lake's manifests stay the truth; nothing here is read back into the lake.
"""
