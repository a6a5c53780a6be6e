"""This application's Dagster definitions, which ``workspace.yaml`` loads."""
