"""The sections of the settings, by subject: every key with its type, its default and its description.

``settings.loading`` reads them from a file and the environment; ``setting_types`` has the types that they share.
"""
