"""The typed resources of the pipeline: provider, lake, warehouse, engine, and the workspace that joins them.

Their values come from the settings; a project of your own declares them with values of its own.
"""
