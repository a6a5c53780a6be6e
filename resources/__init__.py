"""This application's Dagster resources."""
