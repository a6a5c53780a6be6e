"""Coverage of a lake at many instants: the subjects that each partition lacks.

The results equal those of ``ingest.stream.missing``, but each chain's manifests and holders are read once, so that a
large finished grid takes seconds. ``pricing`` computes the prices of
these gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.contract.chains import from_first_day
from holderlake.contract.tables import TABLES
from holderlake.contract.times import partition_text
from holderlake.ingest.options import FIRST_OPTIONS, Options, chosen_options, has_other_options, options_of
from holderlake.ingest.stream import Partition, Stream, partition_of
from holderlake.ingest.streams.addresses import ADDRESSES
from holderlake.ingest.streams.holders import HOLDERS
from holderlake.lake.lake import Lake, Manifest
from holderlake.settings import Settings
from holderlake.workspace import Workspace

Held = Mapping[tuple[str, str], Manifest]
"""A chain's complete manifests, by the name of the stream (family) and the timestamp as text (20261120T000000Z)."""


@dataclass(frozen=True)
class Gap:
    """The subjects of a stream that a partition lacks (``missing``).

    ``unnamed`` is the highest number of further subjects, whose addresses are not known yet. ``options`` are the
    options for the requests. ``other`` are the options that the partition was fetched with if the settings differ.
    """

    stream: Stream
    partition: Partition
    missing: tuple[str, ...]
    unnamed: int = 0
    options: Options = field(default_factory=dict)
    other: Options | None = None

    @property
    def is_none(self) -> bool:
        """True if the partition is complete."""
        return not self.missing and not self.unnamed


class Coverage:
    """Coverage of a lake at some instants, for ``tokens`` or the watchlist's tokens. Each chain is read once.

    ``refresh`` treats all subjects as missing.
    """

    def __init__(
        self, lake: Lake, instants: Sequence[datetime], tokens: Sequence[str] | None = None, refresh: bool = False
    ) -> None:
        self._lake = lake
        self._refresh = refresh
        self._instants = sorted(instants, reverse=True)
        self._timestamps = {as_of: partition_text(as_of) for as_of in instants}
        self._tokens = None if tokens is None else tuple(tokens)
        self._held = cache(self._read_held)
        self._top = cache(self._read_top)

    def gaps(self, workspace: Workspace, streams: Sequence[Stream], chain: str) -> Iterator[Gap]:
        """Yield a gap for each partition of a chain, in the order of a backfill, under the workspace's settings."""
        partitions = [partition_of(workspace, chain, as_of) for as_of in from_first_day(chain, self._instants)]
        for stream in streams:
            yield from self._gaps(workspace, stream, partitions) if partitions else ()

    def _gaps(self, workspace: Workspace, stream: Stream, partitions: Sequence[Partition]) -> Iterator[Gap]:
        if stream is ADDRESSES:
            yield from self._address_gaps(workspace, partitions)
            return
        subjects = self._subjects(workspace, stream, partitions[0])
        for partition in partitions:
            gap = self._gap(workspace.settings, stream, partition, subjects)
            yield self.refreshed(workspace, gap) if self._refresh else gap

    def refreshed(self, workspace: Workspace, gap: Gap) -> Gap:
        """Return the gap for a refresh of its partition: all subjects, with the options of the settings."""
        subjects = self._subjects(workspace, gap.stream, gap.partition)
        held = self._held(gap.partition.chain).get((gap.stream.name, self._timestamps[gap.partition.as_of]))
        kept = sorted(held.covered) if held and gap.other is not None else []
        options = options_of(gap.stream.name, workspace.settings)
        return replace(gap, missing=tuple(dict.fromkeys([*subjects, *kept])), options=options, other=None)

    def _gap(self, settings: Settings, stream: Stream, partition: Partition, subjects: Sequence[str]) -> Gap:
        held = self._held(partition.chain).get((stream.name, self._timestamps[partition.as_of]))
        is_other = held is not None and bool(held.answered) and has_other_options(stream.name, settings, held)
        recorded = None if held is None or held.options is None else held.options
        return Gap(
            stream,
            partition,
            self._missing(stream, partition, subjects),
            options=chosen_options(stream.name, settings, held, False),
            other=(recorded or FIRST_OPTIONS[stream.name]) if is_other else None,
        )

    def _address_gaps(self, workspace: Workspace, partitions: Sequence[Partition]) -> Iterator[Gap]:
        """Yield the gaps of the stream ``addresses``. Top holders not in the lake are counted in ``unnamed``."""
        chosen = workspace.settings.addresses
        without_top = changed(workspace.settings, "addresses.top", 0)
        named = ADDRESSES.subjects(with_settings(workspace, without_top), partitions[0])
        ranked = self._top(partitions[0].chain, chosen.top) if chosen.enabled and chosen.top else {}
        watched = self._subjects(workspace, HOLDERS, partitions[0]) if chosen.enabled and chosen.top else []
        for partition in partitions:
            unlisted = self._missing(HOLDERS, partition, watched)
            subjects = sorted({*named, *ranked.get(partition.as_of, ())})
            missing = tuple(subjects) if self._refresh else self._missing(ADDRESSES, partition, subjects)
            yield Gap(ADDRESSES, partition, missing, chosen.top * len(unlisted))

    def _subjects(self, workspace: Workspace, stream: Stream, partition: Partition) -> list[str]:
        """Return a stream's subjects, which are the same for all instants of a chain. Not for ``addresses``."""
        if self._tokens is not None and stream.by == "token":
            return list(self._tokens)
        return stream.subjects(workspace, partition)

    def _missing(self, stream: Stream, partition: Partition, subjects: Sequence[str]) -> tuple[str, ...]:
        manifest = self._held(partition.chain).get((stream.name, self._timestamps[partition.as_of]))
        return tuple(subject for subject in subjects if manifest is None or subject not in manifest.answered)

    def _read_held(self, chain: str) -> Held:
        return {(one.family, one.timestamp): one for one in self._lake.complete(chain, self._instants)}

    def _read_top(self, chain: str, top: int) -> Mapping[datetime, set[str]]:
        """Return the addresses of holders up to rank ``top``, by instant. Raises ``LakeError`` for a damaged file."""
        held = [one for (family, _), one in self._held(chain).items() if family == HOLDERS.name]
        paths = [str(self._lake.store.path(one, "holders")) for one in held if one.tables["holders"].rows]
        found: dict[datetime, set[str]] = {}
        if not paths:
            return found
        import pyarrow.dataset as pads  # imports pandas

        try:
            rows = pads.dataset(paths, schema=TABLES["holders"].schema, format="parquet").to_table(
                columns=["as_of", "address"], filter=pc.field("rank") <= top
            )
        except (OSError, pa.ArrowInvalid):
            rows = pa.concat_tables([self._lake.rows(one, "holders") for one in held])
            rows = rows.filter(pc.less_equal(rows["rank"], top))
        for as_of, address in zip(rows["as_of"].to_pylist(), rows["address"].to_pylist(), strict=True):
            found.setdefault(as_of, set()).add(address)
        return found


def with_settings(workspace: Workspace, settings: Settings) -> Workspace:
    """Return a workspace with the same stores and other settings."""
    other = copy(workspace)
    other.settings = settings
    return other


def changed(settings: Settings, name: str, value: object) -> Settings:
    """Return a copy of the settings with another value of the setting ``name``, as in ``addresses.top``."""
    section, _, key = name.partition(".")
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update={key: value})})
