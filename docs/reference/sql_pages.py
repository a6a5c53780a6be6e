"""The reference pages of views and macros: ``sql.md``, which leads to the pages of ``sql/``, one for each subject."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from docs.reference.view_columns import view_columns
from holderlake.core.warehouse.schema import Query, queries

_HEAD: Final = """\
# SQL: views and macros

`holderlake sql` queries the warehouse read-only. Any DuckDB client from 1.5 on can open `warehouse.duckdb`
([connect your tools](connect.md)). [Questions](questions.md) has twenty examples with their answers and plots, and
[tables](tables.md) the columns of the tables.

"""

_RULES: Final = """
## Rules for all queries

**Times** are dates, date-times (UTC unless they name a zone), unix seconds, or a text of one of these. All sessions are
in UTC on every machine; [other clients](connect.md) set it first. A date names the complete day, and so does a midnight
without a zone, whichever type it has (`DATE`, `TIMESTAMP` or text, `is_day`): as of a day means as of its end, and a
period includes its first and its last day. Only `until` of `flows` is the first day that no longer counts. The instant
of midnight is `'2026-06-30T00:00:00Z'`, `TIMESTAMPTZ` or unix seconds: write `timezone('UTC', timestamp)` for a column.
In conditions of your own, SQL compares with the beginning of the day: `block_time <= '2026-06-30'` leaves that day out,
so write `block_time < '2026-07-01'`. `holderlake sql`, Python and the assistants' tools say so.

**As of a time.** Macros as of a time answer with the newest data at or before it: `requested` and `days_earlier` show
the distance, and `is_outdated` is true if it is more than `sql.as_of_warning` of the [settings](settings.md).
`holderlake sql` and the assistants' tools say so too.

**Addresses** in hexadecimal may be in any case; for other addresses the case matters. A token without holders in its
newest answer has no rows, and neither has a token that was not fetched yet at `t`. Columns of address details
(`is_cex`, `label`, …) are null in `holders` if details were not requested; `special_addresses` collects them from all
tables.

**Amounts** have two columns: `sum(amount)` is right for most tokens, `exact_total(amount, amount_exact)` for all;
`ORDER BY exact_number(amount, amount_exact)` orders amounts of any size.

**Readers never wait, and never see half a load.** A load writes a copy of the file and renames it: a reader that has
the old file open continues with it, and the next reader sees everything that was loaded. A killed load changes nothing.
Loads are idempotent: a partition that was written again replaces its rows. Rows are ordered by month, chain, token and
instant, so the file is small, and a query about a token or a time is fast. Each table's comment names its key; each
load counts rows that share one.

## From Python

```python
import holderlake

holderlake.open_warehouse().pandas("FROM latest_holders WHERE chain = 'eth'")
holderlake.open_warehouse().polars("FROM holder_changes('2025-01-01', '2026-01-01')")
holderlake.open_warehouse().arrow("FROM address_history(?)", ["0x6ba6f2207e343923ba692e5cae646fb0f566db8d"])
holderlake.open_lake().pandas("FROM concentration_history")
```

Run it in the folder of `holderlake.toml`, or name the file: `open_warehouse("data/warehouse.duckdb")`. Amounts are
exact, and whole numbers stay whole.

## Without the warehouse

`holderlake lake views > lake.sql` writes a script that creates the same tables, views and macros over the lake's
Parquet files, for any DuckDB: `duckdb -init lake.sql`. It sets the session's time zone to UTC. It shows the partitions
that are committed when it is read; read it again to see later ones. While a partition is written, a query may see only
a part of it; the warehouse never does.

A damaged file blocks no query. Each time the script is read, it leaves out partitions with a manifest that cannot be
read, or with a file that is missing or has another size. The command itself reads every byte of the lake once, names
the damaged files on standard error, and leaves their partitions out too. `holderlake home rebuild --damaged` repairs
them at no cost. While files are damaged, the list of intact files belongs to one session of DuckDB: read the script
in each session and each cursor.

Other programs open a table's folder: see [connect your tools](connect.md#parquet-files).
"""

_SNAPSHOTS: Final = """\
In addition to the [tables](../tables.md) there are, for each of `tokens`, `holders`, `maps`, `map_nodes`,
`grouped_transfers`, `clusters` and `cluster_members`:

| name | rows |
|---|---|
| `latest_holders` | each token's newest partition |
| `holders_as_of(t)` | each token's newest partition at or before `t` |
| `holders_known_at(t, known)` | the same rows that were known at the time `known`: two axes of time |
| `replaced_holders` | rows that a later answer of the same partition changed or withdrew |

The metadata of `addresses` have the first two.
"""

_THROUGH_TIME: Final = """\
For tokens of your store, one call gives a figure of all holders at the end of each day, week, month, quarter or year,
in any time zone. Each counts all holders, and wallets without exchanges, contracts and addresses without an owner.

```sql
-- shares of the ten largest, Gini index, Nakamoto coefficient by month
FROM concentration_by_period('FERN', 'month', '2026-01-01', '2026-06-30') WHERE holders = 'wallets' ORDER BY day;
-- of the wallets that came in a month, how many are still there
FROM retention('FERN', 'month', '2026-01-01', '2026-06-30') WHERE holders = 'wallets' ORDER BY cohort, day;
-- which part of the supply has not moved for 30 days
FROM supply_age('FERN', 'month', '2026-01-01', '2026-06-30', days := [30]) WHERE holders = 'wallets' ORDER BY day;
-- how long addresses hold
SELECT median(days) FROM holding_times('FERN') ANTI JOIN special_addresses USING (chain, address);
-- who bought and sold most in June
FROM net_flows('FERN', '2026-06-01', '2026-06-30') WHERE kind IS NULL ORDER BY net DESC;
-- days of Berlin
FROM holders_by_day('FERN', '2026-06-01', '2026-06-30', zone := 'Europe/Berlin') ORDER BY day;
```

Missing transfers make figures wrong, and an address below zero is no holder: see
[are my transfers complete](../sources.md#are-my-transfers-complete).
"""
_ALL_HOLDERS: Final = """\
For tokens of your store, the balances of all addresses at the end of any second need no list and no credits. Macros
take a token's address or symbol.

```sql
-- the largest holders at a second
FROM balances_at('FERN', '2025-12-31T12:00:00Z') ORDER BY amount DESC LIMIT 10;
-- everyone who entered, left or changed between two instants
SELECT address, earlier.amount AS before, later.amount AS after
FROM balances_at('FERN', '2025-06-01') AS earlier
FULL JOIN balances_at('FERN', '2025-12-31') AS later USING (chain, token_address, address)
WHERE later.raw_amount IS DISTINCT FROM earlier.raw_amount;
-- holders of both tokens
SELECT count(*)
FROM balances_at('FERN', '2025-12-31') SEMI JOIN balances_at('KELP', '2025-12-31') USING (chain, address);
-- how many holders there were, and what one address did
FROM holder_counts('FERN') ORDER BY day;
FROM balance_history('0x77107a2772361564a9c0a5461bce8fac01d211a8', 'FERN') ORDER BY block_time;
-- who holds an item of an NFT
FROM item_owner_at('GMOTH', 1, '2025-12-31');
```

An address without a row holds nothing then: no figure is cut off by a limit. The macros read the store's transfers,
opening balances and corrections as of the last load, of the one token only. A load writes the balances of new transfers
as Parquet files in the folder `warehouse.duckdb.transfers`: about 24 bytes for each change of a balance. Any DuckDB
that opens the warehouse, and `holderlake lake views`, read them. Missing transfers make balances wrong or negative: see
[are my transfers complete](../sources.md#are-my-transfers-complete), and [`verified`](quality.md#verified) for tokens
that change balances without transfers.
"""

_LISTS: Final = """\
**Lists have an end.** `holder_lists` says of each list of holders whether it is complete (`is_complete`), how many
holders the token has then (`holders_total`), and else the most that an address outside of it can have
(`unlisted_at_most`). `holder_changes`, `holder_overlap` and `holding_periods` are null, or show a bound, where a full
list does not know. For tokens of your store, [all holders](all-holders.md) are known without lists.
"""

_CONCENTRATION: Final = """\
Maps with other request options are other series: `series` in `concentration_history` and `map_series`. For a token of
your store, [`concentration_by_owner`](owners.md#concentration_by_ownerof_token-t) counts owners instead of wallets.
"""


@dataclass(frozen=True)
class Subject:
    """A page of views and macros, in the order in which it has them."""

    name: str
    """The name of the page's file."""
    title: str
    wants: str
    """The task of its readers, after "I want to"."""
    queries: tuple[str, ...]
    text: str = ""
    """Text before the first view or macro."""


SUBJECTS: Final = (
    Subject(
        "snapshots",
        "Rows: newest, as of a time, known at a time",
        "read a table's newest rows, its rows as of a date, or those known at a date",
        ("answered_as_of", "answered_known_at", "knowledge"),
        _SNAPSHOTS,
    ),
    Subject(
        "all-holders",
        "All holders of your own tokens",
        "know all holders of a token of my store at any second, and how many there were",
        ("balances_at", "balance_history", "holder_counts", "holders_by_day", "item_owner_at", "item_owners_at"),
        _ALL_HOLDERS,
    ),
    Subject(
        "through-time",
        "All holders through time",
        "follow all holders of a token of my store by day, week or month: shares, Gini index, cohorts, dormant "
        "holders, net flows",
        (
            "concentration_by_period",
            "retention",
            "supply_age",
            "holding_times",
            "net_flows",
            "holders_by_period",
            "supply_by_period",
            "balance_periods",
            "basis_of",
            "periods",
            "concentration_of",
        ),
        _THROUGH_TIME,
    ),
    Subject(
        "holder-lists",
        "Lists of holders, compared",
        "know who entered, left, grew or shrank between two dates, who holds two tokens, and for how long",
        (
            "holder_changes",
            "holder_overlap",
            "holding_periods",
            "holders_on_maps_as_of",
            "holder_lists",
            "list_instants",
            "listed_holders",
        ),
        _LISTS,
    ),
    Subject(
        "concentration",
        "Concentration through time",
        "follow a token's score, Gini index and shares through time",
        ("concentration_history", "map_series"),
        _CONCENTRATION,
    ),
    Subject(
        "clusters",
        "Clusters through time",
        "follow a cluster through time, and its transfers to exchanges and other clusters",
        ("cluster_history", "cluster_lineage", "cluster_kinship", "cluster_flows"),
    ),
    Subject(
        "owners",
        "Owners and their evidence",
        "count owners instead of wallets, and see why wallets belong together",
        (
            "entities",
            "entities_as_of",
            "holders_by_owner",
            "owners_as_of",
            "concentration_by_owner",
            "cluster_links",
            "link_transfers",
            "entity_searches",
            "entity_search_at",
        ),
        "[Wallets of one owner](../entities.md) has the method and its limits.\n",
    ),
    Subject(
        "addresses",
        "Addresses, names and labels",
        "know the balances, names and labels of an address, and which addresses are exchanges",
        (
            "address_history",
            "address_names",
            "special_addresses",
            "special_addresses_as_of",
            "special_periods",
            "exchanges",
            "is_burn",
            "stored_labels",
            "labels_as_of",
            "label_periods",
            "is_address",
            "address_error",
            "plain_address",
        ),
    ),
    Subject(
        "transfers",
        "Transfers and flows",
        "list or sum transfers: of an address, between two addresses, by period, to and from exchanges",
        (
            "transfers",
            "transfers_of",
            "transfers_between",
            "flows",
            "wallet_funding",
            "funding_of",
            "address_transfers",
            "flows_between",
            "exchange_flows",
            "undone_transfers",
        ),
    ),
    Subject(
        "tokens",
        "Tokens and symbols",
        "find tokens by symbol, and see which ones my store has",
        ("symbols", "stored_tokens", "known_tokens", "token_of", "stored_token_of", "is_symbol"),
    ),
    Subject(
        "quality",
        "Quality of the data",
        "know whether the data can be trusted",
        ("data_quality", "odd_rows", "contradictions", "after_source_end", "verified", "family_of"),
    ),
    Subject(
        "values",
        "Times and amounts",
        "calculate with exact amounts and with times",
        (
            "exact_total",
            "exact_number",
            "exact_amount",
            "amount_units",
            "amount_text",
            "as_amount",
            "as_exact",
            "token_units",
            "exact_units",
            "raw_balance",
            "instant",
            "is_day",
            "unix_second",
            "start_of_period",
            "end_of_period",
            "as_of_distance",
            "as_of_warning",
        ),
    ),
)


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the documentation site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def link(query: Query, folder: str = "") -> str:
    """Return a link to a view or macro, for a page from which ``folder`` leads to the folder ``sql/``."""
    return f"[`{query.signature}`]({folder}{_pages()[query.name]}.md#{anchor(query.signature)})"


def sql_page() -> str:
    """Return the first page: the subjects by task, the rules for all queries, and the names of each subject."""
    tasks = [f"| {subject.wants} | [{subject.title}](sql/{subject.name}.md) |\n" for subject in SUBJECTS]
    tasks += ["| query from Python | [From Python](#from-python) |\n"]
    tasks += ["| query the Parquet files alone | [Without the warehouse](#without-the-warehouse) |\n"]
    names = [
        f"\n**{subject.title}**: {', '.join(link(query, 'sql/') for query in _queries(subject))}\n"
        for subject in SUBJECTS
    ]
    return "".join([_HEAD, "| I want to | page |\n|---|---|\n", *tasks, _RULES, "\n## All views and macros\n", *names])


def subject_page(subject: Subject) -> str:
    """Return the page of a subject: its views and macros with their columns."""
    text = f"\n{subject.text}" if subject.text else ""
    return f"# {subject.title}\n{text}" + "".join(map(_section, _queries(subject)))


@cache
def _pages() -> dict[str, str]:
    """Return the page of each view and macro. Raises ``KeyError`` for one that is on no page."""
    pages = {name: subject.name for subject in SUBJECTS for name in subject.queries}
    pages |= {query.name: SUBJECTS[0].name for query in queries() if query.snapshot_of}
    for query in queries():
        if query.name not in pages:
            raise KeyError(f"{query.name} is on no page: add it to SUBJECTS in docs/reference/sql_pages.py")
    return pages


def _queries(subject: Subject) -> list[Query]:
    """Return the views and macros of a subject in its order; snapshots of tables follow by name."""
    order = {name: place for place, name in enumerate(subject.queries)}
    own = [query for query in queries() if _pages()[query.name] == subject.name]
    return sorted(own, key=lambda query: order.get(query.name, len(order)))


def _section(query: Query) -> str:
    about, example = (" ".join(part.split()) for part in query.comment.split("Example:"))
    return f"\n## {query.signature}\n\n{about}\n\n```sql\n{example}\n```\n{_columns(query)}"


def _columns(query: Query) -> str:
    if query.kind == "MACRO":
        return ""
    if query.snapshot_of:
        more = ", and `known_until`" if query.name.startswith("replaced_") else ""
        if query.kind == "MACRO TABLE":
            more = ", and `requested`, `days_earlier` and `is_outdated` of [answered_as_of](#answered_as_ofof_family-t)"
        return f"\nColumns: those of [{query.snapshot_of}](../tables/{query.snapshot_of}.md){more}.\n"
    rows = (f"| `{one.name}` | {one.type} | {one.meaning} |\n" for one in view_columns()[query.name])
    return "\n| column | type | meaning |\n|---|---|---|\n" + "".join(rows)
