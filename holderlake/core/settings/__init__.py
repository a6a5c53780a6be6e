"""Settings: one file ``holderlake.toml``, and environment variables ``HOLDERLAKE_…`` that override it.

The settings' types, defaults and checks belong here. What a setting does belongs in the package that reads it.
"""

from holderlake.core.setting_types import SettingsError
from holderlake.core.settings.loading import CONFIG_NAME, CONFIG_VARIABLE, load_settings
from holderlake.core.settings.model import Settings
from holderlake.core.settings.sections.provider import AddressSet

__all__ = ["CONFIG_NAME", "CONFIG_VARIABLE", "AddressSet", "Settings", "SettingsError", "load_settings"]
