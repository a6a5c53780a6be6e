"""``holderlake doctor``: checks of the settings, the provider, the store and every file of a home."""
