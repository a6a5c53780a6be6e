"""Request options that change the content of an answer, and the choice of options for a partition.

A partition has one set of options. Further subjects are requested with the partition's options, even if the settings
have changed. Only a refresh replaces the options, for all subjects of the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from holderlake.lake.manifests import Manifest
    from holderlake.settings import Settings

Options: TypeAlias = Mapping[str, Any]
"""Options by the name of their setting, for example ``limit``. Empty for a stream whose requests have no options."""

OPTION_NAMES: Final = {
    "maps": ("limit", "use_magic_nodes", "use_time_nodes"),
    "holders": ("limit", "with_metadata"),
}
"""Names of the request options of each stream that has options."""


def options_of(stream: str, settings: Settings) -> Options:
    """Return the request options that the settings define for a stream, for example ``maps``."""
    return {name: getattr(getattr(settings, stream), name) for name in OPTION_NAMES.get(stream, ())}


def with_options(stream: str, settings: Settings, options: Options) -> Settings:
    """Return a copy of the settings in which a stream has the given request options."""
    if not options or options == options_of(stream, settings):
        return settings
    section = getattr(settings, stream).model_copy(update=dict(options))
    return settings.model_copy(update={stream: section})


def chosen_options(stream: str, settings: Settings, manifest: Manifest | None, refresh: bool) -> Options:
    """Return the options for a partition's requests: those in its ``manifest``, else those in the settings.

    A ``refresh`` always uses the settings.
    """
    return options_of(stream, settings) if manifest is None or refresh else manifest.options


def has_other_options(stream: str, settings: Settings, manifest: Manifest) -> bool:
    """Return whether the options in a partition's manifest differ from those in the settings."""
    return manifest.options != options_of(stream, settings)
