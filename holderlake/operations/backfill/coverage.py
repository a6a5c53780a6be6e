"""Coverage of a lake at many instants: the subjects that each partition lacks.

The module finds the gaps that an ingest would fill. It reads each chain's manifests once, so that thousands of
complete partitions take seconds. For a partition with thousands of tokens, only the missing tokens stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.assets import STREAMS
from holderlake.assets.addresses import ADDRESSES
from holderlake.assets.holders import HOLDERS
from holderlake.core.contract.chains import from_first_day
from holderlake.core.contract.models import ADDRESS_PATTERN, LONGEST_ADDRESS
from holderlake.core.contract.times import partition_text
from holderlake.core.ingest.stream import ChainInstant, Options, Stream, partition_of, watched_tokens
from holderlake.core.lake.lake import Lake, Manifest
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace

_SLIM: Final = frozenset(stream.name for stream in STREAMS if stream.by in ("token", "address"))
"""Names of the streams whose manifests list too many tokens or addresses to keep them in memory."""


@dataclass(frozen=True)
class Held:
    """A complete partition in the lake.

    ``has_answers`` is True if the partition has an answer about at least one subject. If the subjects are tokens,
    ``missing`` are the watched tokens that the partition lacks, and ``unwatched`` its tokens that are not watched. If
    ``is_stale``, the own store changed after its rows were computed, and it lacks all its subjects. If the subjects are
    tokens or addresses, ``manifest.covered`` is emptied to save memory.
    """

    manifest: Manifest
    has_answers: bool
    missing: tuple[str, ...] = ()
    unwatched: tuple[str, ...] = ()
    is_stale: bool = False


@dataclass(frozen=True)
class Gap:
    """The subjects of a stream that one partition lacks. ``missing`` has them, for example token addresses.

    ``missing`` is empty if the partition is complete. ``unnamed`` is the highest possible number of further missing
    subjects, whose addresses are not known yet. ``options`` are the request options to fetch the subjects with.
    ``other`` are the request options of the existing partition, if they differ from those of the settings; else None.
    ``is_stale`` is true if the own store changed after the partition's rows were computed.
    """

    stream: Stream
    partition: ChainInstant
    missing: tuple[str, ...]
    unnamed: int = 0
    options: Options = field(default_factory=dict)
    other_options: Options | None = None
    is_stale: bool = False

    @property
    def is_none(self) -> bool:
        """True if the partition is complete."""
        return not self.missing and not self.unnamed


class Coverage:
    """Finds the gaps of a lake at some instants (naive UTC).

    It examines the tokens ``tokens``, or those of the watchlist if it is None. The manifests of each chain are read
    once and kept in memory. With ``refresh``, all subjects count as missing.
    """

    def __init__(
        self, lake: Lake, instants: Sequence[datetime], tokens: Sequence[str] | None = None, refresh: bool = False
    ) -> None:
        self._lake = lake
        self._refresh = refresh
        self._instants = sorted(instants, reverse=True)
        self._timestamps = {as_of: partition_text(as_of) for as_of in instants}
        self._tokens = None if tokens is None else tuple(dict.fromkeys(tokens))
        self._held_partitions: dict[str, dict[tuple[str, str], Held]] = {}
        self._watched: dict[str, tuple[str, ...]] = {}

    def gaps(self, workspace: Workspace, streams: Sequence[Stream], chain: str) -> Iterator[Gap]:
        """Yield the gap of each partition of a chain, complete ones included: by stream, then newest instant first."""
        partitions = [partition_of(workspace, chain, as_of) for as_of in from_first_day(chain, self._instants)]
        if not partitions:
            return
        if chain not in self._held_partitions:
            self._watched[chain] = (
                tuple(watched_tokens(workspace, partitions[0])) if self._tokens is None else self._tokens
            )
            self._held_partitions[chain] = self._read_held(workspace, chain, self._watched[chain])
        for stream in streams:
            yield from self._gaps(workspace, stream, partitions)

    def _gaps(self, workspace: Workspace, stream: Stream, partitions: Sequence[ChainInstant]) -> Iterator[Gap]:
        if stream is ADDRESSES:
            yield from self._address_gaps(workspace, partitions)
            return
        for partition in partitions:
            gap = self._gap(workspace, stream, partition)
            yield self.refreshed(workspace, gap) if self._refresh else gap

    def refreshed(self, workspace: Workspace, gap: Gap) -> Gap:
        """Return the gap with all subjects as missing, and with the request options of the settings."""
        subjects = self._subjects(workspace, gap.stream, gap.partition)
        held_partition = self._of(gap.stream, gap.partition)
        unwatched = held_partition.unwatched if held_partition and gap.other_options is not None else ()
        options = gap.stream.options_in(workspace.settings)
        return replace(gap, missing=(*subjects, *unwatched), options=options, other_options=None)

    def _gap(self, workspace: Workspace, stream: Stream, partition: ChainInstant) -> Gap:
        settings, held_partition = workspace.settings, self._of(stream, partition)
        manifest = held_partition.manifest if held_partition else None
        is_other = (
            held_partition is not None
            and held_partition.has_answers
            and held_partition.manifest.options != stream.options_in(settings)
        )
        return Gap(
            stream,
            partition,
            self._missing(workspace, stream, partition),
            options=stream.chosen_options(settings, manifest, False),
            other_options=manifest.options if manifest and is_other else None,
            is_stale=held_partition is not None and held_partition.is_stale,
        )

    def _address_gaps(self, workspace: Workspace, partitions: Sequence[ChainInstant]) -> Iterator[Gap]:
        """Yield the gaps of the stream ``addresses``.

        ``unnamed`` counts the top holders of tokens whose holders are not in the lake yet.
        """
        address_settings = workspace.settings.addresses
        top = address_settings.top if address_settings.enabled else 0
        without_top = changed(workspace.settings, "addresses.top", 0)
        named_addresses = ADDRESSES.subjects(with_settings(workspace, without_top), partitions[0])
        for partition in partitions:
            unlisted = self._missing(workspace, HOLDERS, partition) if top else ()
            subjects = self._with_top(partition, named_addresses, top)
            held_partition = None if self._refresh else self._of(ADDRESSES, partition)
            is_stale = held_partition is not None and held_partition.is_stale
            if held_partition is not None and held_partition.has_answers:
                manifest = self._lake.manifest(ADDRESSES.name, partition.chain, partition.as_of)
                subjects = _lacking(subjects, manifest, is_stale) if manifest else subjects
            yield Gap(ADDRESSES, partition, tuple(subjects), top * len(unlisted), is_stale=is_stale)

    def _subjects(self, workspace: Workspace, stream: Stream, partition: ChainInstant) -> Sequence[str]:
        """Return all subjects of a stream in a partition. Not for ``addresses``, whose subjects change by instant."""
        return self._watched[partition.chain] if stream.by == "token" else stream.subjects(workspace, partition)

    def _missing(self, workspace: Workspace, stream: Stream, partition: ChainInstant) -> tuple[str, ...]:
        """Return the subjects that a partition lacks. Not for the stream ``addresses``."""
        held_partition = self._of(stream, partition)
        if held_partition is None:
            return tuple(self._subjects(workspace, stream, partition))
        if stream.by == "token":
            return held_partition.missing
        subjects = stream.subjects(workspace, partition)
        return tuple(_lacking(subjects, held_partition.manifest, held_partition.is_stale))

    def _of(self, stream: Stream, partition: ChainInstant) -> Held | None:
        return self._held_partitions[partition.chain].get((stream.name, self._timestamps[partition.as_of]))

    def _read_held(self, workspace: Workspace, chain: str, watched: tuple[str, ...]) -> dict[tuple[str, str], Held]:
        """Return a chain's complete partitions, by stream and timestamp as text (20261120T000000Z)."""
        token_set = frozenset(watched)
        return {
            (manifest.family, manifest.timestamp): _held_partition(
                manifest, watched, token_set, workspace.is_stale(manifest)
            )
            for manifest in self._lake.complete(chain, self._instants)
        }

    def _with_top(self, partition: ChainInstant, named_addresses: Sequence[str], top: int) -> list[str]:
        """Return the addresses ``named_addresses`` and those of the partition's holders up to rank ``top``.

        Addresses that no request can name are left out. The result is sorted and has no duplicates.
        Raises ``LakeError`` if the file of holders is damaged.
        """
        held_partition = self._of(HOLDERS, partition) if top else None
        if held_partition is None or not held_partition.manifest.tables["holders"].rows:
            return sorted(set(named_addresses))
        rows = self._top_rows(held_partition.manifest)
        ranked = rows.filter(pc.less_equal(rows["rank"], top))["address"].combine_chunks()
        candidates = pc.unique(pa.concat_arrays([ranked, pa.array(named_addresses, ranked.type)]))
        candidates = candidates.filter(pc.match_substring_regex(candidates, ADDRESS_PATTERN))
        candidates = candidates.filter(pc.less_equal(pc.utf8_length(candidates), LONGEST_ADDRESS))
        addresses: list[str] = candidates.take(pc.sort_indices(candidates)).to_pylist()
        return addresses

    def _top_rows(self, manifest: Manifest) -> pa.Table:
        try:
            with pq.ParquetFile(self._lake.storage.path(manifest, "holders")) as file:
                return file.read(columns=["rank", "address"])
        except (OSError, pa.ArrowInvalid):
            return self._lake.rows(manifest, "holders")


def _held_partition(manifest: Manifest, watched: tuple[str, ...], token_set: frozenset[str], is_stale: bool) -> Held:
    """Return the partition of a manifest. ``watched`` and ``token_set`` have the same tokens, in order and as a set."""
    has_answers = bool(manifest.answered)
    if manifest.family not in _SLIM:
        return Held(manifest, has_answers, is_stale=is_stale)
    slim = replace(manifest, covered=frozenset())
    if manifest.family == ADDRESSES.name:
        return Held(slim, has_answers, is_stale=is_stale)
    missing = tuple(_lacking(watched, manifest, is_stale)) if has_answers else watched
    unwatched = () if is_stale else tuple(sorted(manifest.covered - token_set))
    return Held(slim, has_answers, missing, unwatched, is_stale)


def _lacking(subjects: Sequence[str], manifest: Manifest, is_stale: bool) -> list[str]:
    """Return the subjects that a partition lacks. A stale partition lacks all: those requested, and those it has."""
    if is_stale:
        return [*dict.fromkeys([*subjects, *sorted(manifest.covered)])]
    answered_subjects = manifest.answered
    return [subject for subject in subjects if subject not in answered_subjects]


def with_settings(workspace: Workspace, settings: Settings) -> Workspace:
    """Return a copy of a workspace that has other settings, and shares its lake, archive and ledger."""
    changed_workspace = copy(workspace)
    changed_workspace.settings = settings
    return changed_workspace


def changed(settings: Settings, name: str, value: object) -> Settings:
    """Return a copy of the settings with another value of one setting; ``name`` is for example ``addresses.top``."""
    section, _, key = name.partition(".")
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update={key: value})})
