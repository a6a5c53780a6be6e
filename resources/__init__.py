"""This application's Dagster resources: the provider, lake, warehouse and engine that its runs use.

``definitions`` declares them from the settings. Their classes are in ``holderlake.dagster.resources``, for use in
projects of your own too.
"""
