"""Request options that change the content of an answer, and the choice of options for a partition.

A partition has one set of options. Further subjects are requested with the partition's options, even if the settings
have changed. Only a refresh replaces the options, for all subjects of the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from holderlake.contract.requests import HoldersRequest, MapRequest, Request

if TYPE_CHECKING:
    from holderlake.lake.manifests import Manifest
    from holderlake.settings import Settings

Options: TypeAlias = Mapping[str, Any]
"""Options by the name of their setting, for example ``limit``. Empty for a stream whose requests have no options."""

FIRST_OPTIONS: Final[Mapping[str, Options]] = {
    "maps": {"limit": 80, "use_magic_nodes": True, "use_time_nodes": True},
    "holders": {"limit": 80, "with_metadata": False},
}
"""Request options of partitions from version 0.1.0, which did not record options: the defaults of that version."""


def options_of(stream: str, settings: Settings) -> Options:
    """Return the request options that the settings define for a stream, for example ``maps``."""
    return {name: getattr(getattr(settings, stream), name) for name in FIRST_OPTIONS.get(stream, ())}


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
    if manifest is None or manifest.options is None or refresh:
        return options_of(stream, settings)
    return manifest.options


def has_other_options(stream: str, settings: Settings, manifest: Manifest) -> bool:
    """Return whether the options in a partition's manifest differ from those in the settings."""
    recorded = FIRST_OPTIONS.get(stream, {}) if manifest.options is None else manifest.options
    return recorded != options_of(stream, settings)


def requested_options(request: Request) -> Options:
    """Return the options of a request by the name of their setting, for example ``limit``."""
    match request:
        case MapRequest(options=own):
            return {"limit": own.limit, "use_magic_nodes": own.use_magic_nodes, "use_time_nodes": own.use_time_nodes}
        case HoldersRequest(options=own):
            return {"limit": own.limit, "with_metadata": own.return_metadata}
    return {}
