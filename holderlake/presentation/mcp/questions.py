"""The SQL of common questions, with all values written into it, so that it can be read and run as it is."""

from __future__ import annotations

from typing import Final, Literal

from holderlake.core.warehouse.schema import quoted

Problem = Literal["error", "warning", "info"]
_LONG_AGO: Final = "1970-01-01"
_FAR_FUTURE: Final = "9999-01-01"


def token_condition(token: str, chain: str | None) -> str:
    """Return the SQL condition of a token (its symbol or address), on one chain or on all."""
    condition = f"token_address = token_of({quoted(token)})"
    return condition if chain is None else f"{condition} AND chain = {quoted(chain)}"


def find_tokens(text: str) -> str:
    """Return SQL for the tokens with a text in symbol, name or address, with their first and last map."""
    part = quoted(f"%{text.strip()}%")
    return f"""
SELECT chain, token_address, symbol, name, min(timestamp) AS first, max(timestamp) AS last, count(*) AS maps
FROM symbols LEFT JOIN maps USING (chain, token_address)
WHERE symbol ILIKE {part} OR name ILIKE {part} OR token_address ILIKE {part}
GROUP BY ALL ORDER BY maps DESC, chain, token_address"""


def is_stored(token: str, chain: str | None) -> str:
    """Return SQL with a row if the own store has all holders of a token: then questions about it read no lists."""
    return f"SELECT chain FROM stored_tokens WHERE {token_condition(token, chain)}"


def holders_as_of(token: str, at: str, chain: str | None, top: int) -> str:
    """Return SQL for the largest holders of a token in the list as of an instant."""
    return f"""
SELECT chain, timestamp, rank, address, label, amount, amount_exact, share, is_cex, is_dex, is_contract, fetched_at,
    as_of_distance({quoted(at)}, timestamp) AS days_earlier, 'list of at most ' || coalesce(holder_limit, 80) AS basis
FROM listed_holders JOIN list_instants USING (chain, token_address, timestamp)
WHERE {token_condition(token, chain)} AND rank <= {top}
    AND timestamp <= instant({quoted(at)}) AND coalesce(next_timestamp > instant({quoted(at)}), true)
ORDER BY chain, rank"""


def all_holders_as_of(token: str, at: str, chain: str | None, top: int) -> str:
    """Return SQL for the largest of all holders of a token of the own store, at the end of an instant."""
    return f"""
SELECT held.chain, row_number() OVER (PARTITION BY held.chain ORDER BY share DESC, held.address) AS rank, held.address,
    special.kind, label, amount, amount_exact, raw_amount, share, basis,
    count(*) OVER (PARTITION BY held.chain) AS holders
FROM balances_at({quoted(token)}, {quoted(at)}) AS held
LEFT JOIN special_addresses_as_of({quoted(at)}) AS special USING (chain, address)
WHERE {f"held.chain = {quoted(chain)}" if chain else "true"}
QUALIFY rank <= {top}
ORDER BY chain, rank"""


def concentration_by_period(token: str, each: str, first_day: str, last_day: str, chain: str | None) -> str:
    """Return SQL for the concentration of a token's holders by day, week or month."""
    return f"""
SELECT *
FROM concentration_by_period({", ".join(map(quoted, (token, each, first_day, last_day)))})
WHERE {f"chain = {quoted(chain)}" if chain else "true"}
ORDER BY chain, day, holders"""


def all_changes_between(token: str, start: str, end: str, chain: str | None) -> str:
    """Return SQL for all changes of balances of a token of the own store between two instants, largest first."""
    return f"""
SELECT chain, address, CASE
        WHEN before.address IS NULL THEN 'entered'
        WHEN after.address IS NULL THEN 'left'
        WHEN before.raw_amount::BIGNUM < after.raw_amount::BIGNUM THEN 'grew'
        ELSE 'shrank'
    END AS change,
    before.amount AS amount_before, before.amount_exact AS amount_before_exact, after.amount AS amount_after,
    after.amount_exact AS amount_after_exact, before.share AS share_before, after.share AS share_after,
    coalesce(before.basis, after.basis) AS basis
FROM balances_at({quoted(token)}, {quoted(start)}) AS before
FULL JOIN balances_at({quoted(token)}, {quoted(end)}) AS after USING (chain, token_address, address)
WHERE before.raw_amount IS DISTINCT FROM after.raw_amount{f" AND chain = {quoted(chain)}" if chain else ""}
ORDER BY abs(coalesce(share_after, 0) - coalesce(share_before, 0)) DESC, address"""


def changes_between(token: str, start: str, end: str, chain: str | None) -> str:
    """Return SQL for holders that entered, left, grew or shrank between two lists, largest change first."""
    return f"""
SELECT *
FROM holder_changes({quoted(start)}, {quoted(end)})
WHERE {token_condition(token, chain)}
ORDER BY abs(coalesce(share_after, 0) - coalesce(share_before, 0)) DESC, address"""


def clusters_as_of(token: str, at: str, chain: str | None) -> str:
    """Return SQL for the clusters of a token's map, with their members, as of an instant."""
    return f"""
SELECT chain, timestamp, cluster_id, clusters.share AS cluster_share, holder_count, members.address, members.kind,
    nodes.rank, nodes.share, nodes.label, clusters.fetched_at,
    clusters.requested, clusters.days_earlier, clusters.is_outdated
FROM clusters_as_of({quoted(at)}) AS clusters
JOIN cluster_members_as_of({quoted(at)}) AS members USING (chain, timestamp, token_address, cluster_id)
LEFT JOIN map_nodes_as_of({quoted(at)}) AS nodes
    ON nodes.chain = members.chain AND nodes.token_address = members.token_address
    AND nodes.address = members.address
    AND nodes.kind = if(members.kind = 'holder', 'top_holder', members.kind)
WHERE clusters.{token_condition(token, chain).replace(" AND chain", " AND clusters.chain")}
ORDER BY chain, cluster_id, rank NULLS LAST, members.address"""


def cluster_reasons(token: str, cluster: int, at: str, chain: str | None) -> str:
    """Return SQL for the transfers that connect the members of a cluster on a map, and those to its time nodes."""
    return f"""
WITH members AS (
    SELECT chain, timestamp, token_address, address
    FROM cluster_members_as_of({quoted(at)})
    WHERE {token_condition(token, chain)} AND cluster_id = {cluster}
)
SELECT chain, timestamp, from_address, to_address, time_node, transfer_chain, transfer_token, total_value,
    total_transfers, first_date, last_date
FROM grouped_transfers_as_of({quoted(at)}) AS links
SEMI JOIN members AS senders ON senders.chain = links.chain AND senders.token_address = links.token_address
    AND senders.address = links.from_address
WHERE {token_condition(token, chain)}
    AND (to_address IN (SELECT address FROM members) OR time_node IS NOT NULL)
ORDER BY total_transfers DESC, from_address, to_address"""


def cluster_history(token: str) -> str:
    """Return SQL for the clusters of a token through time, with births, deaths, merges and splits."""
    return f"FROM cluster_history({quoted(token)}) ORDER BY timestamp, cluster_id"


def concentration_history(token: str, since: str | None, until: str | None, chain: str | None) -> str:
    """Return SQL for score, shares and indices of each map of a token in a period."""
    return f"""
SELECT *
FROM concentration_history
WHERE {token_condition(token, chain)}
    AND timestamp BETWEEN start_of_period({quoted(since or _LONG_AGO)})
        AND end_of_period({quoted(since or _LONG_AGO)}, {quoted(until or _FAR_FUTURE)})
ORDER BY chain, series, timestamp"""


def address_history(address: str) -> str:
    """Return SQL for everything that is known of an address: each token that it held, by instant."""
    return f"""
SELECT symbol, history.*
FROM address_history({quoted(address)}) AS history LEFT JOIN symbols USING (chain, token_address)
ORDER BY timestamp, chain, token_address"""


def owners_as_of(token: str, at: str, chain: str | None, top: int) -> str:
    """Return SQL for the largest owners in the list of a token: wallets that probably have one owner are one row."""
    return f"""
SELECT *
FROM owners_as_of({quoted(at)})
WHERE {token_condition(token, chain)}
ORDER BY chain, share DESC, owner
LIMIT {top}"""


def all_owners_as_of(token: str, at: str, chain: str | None, top: int) -> str:
    """Return SQL for the largest owners of a token of the own store."""
    return f"""
SELECT *
FROM holders_by_owner({quoted(token)}, {quoted(at)})
WHERE {f"chain = {quoted(chain)} AND " if chain else ""}rank <= {top}
ORDER BY chain, rank"""


def transfers_between(a: str, b: str) -> str:
    """Return SQL for the transfers of the own store between two addresses, newest first."""
    return f"FROM transfers_between({quoted(a)}, {quoted(b)}) ORDER BY block_time DESC"


def data_quality(token: str | None, severity: Problem | None) -> str:
    """Return SQL for the known problems of the data, of one token or of all."""
    conditions = ["true"]
    if token:
        conditions.append(f"(subject = token_of({quoted(token)}) OR subject IS NULL)")
    if severity:
        conditions.append(f"severity = {quoted(severity)}")
    return f"""
SELECT *
FROM data_quality
WHERE {" AND ".join(conditions)}
ORDER BY severity, issue, chain, timestamp, subject"""


def coverage_of(token: str | None) -> str:
    """Return SQL for the data that exists, by family: subjects, instants, and when it was first received."""
    condition = f"subject = token_of({quoted(token)})" if token else "true"
    return f"""
SELECT family, count(DISTINCT (chain, subject)) AS subjects, count(DISTINCT timestamp) AS instants,
    min(timestamp) AS first, max(timestamp) AS last, max(known_since) AS newest_known_since
FROM coverage
WHERE {condition}
GROUP BY family ORDER BY family"""


def problems_of(token: str | None) -> str:
    """Return SQL for the number of known problems by kind."""
    condition = "true"
    if token:
        chains = f"SELECT chain FROM known_tokens WHERE token_address = token_of({quoted(token)})"
        general = f"subject IS NULL AND (chain IS NULL OR chain IN ({chains}))"
        condition = f"subject = token_of({quoted(token)}) OR ({general})"
    return f"""
SELECT severity, issue, count(*) AS cases, any_value(what) AS example
FROM data_quality
WHERE {condition}
GROUP BY severity, issue ORDER BY severity, issue"""


TABLES: Final = """
SELECT name, kind, split_part(comment, '. ', 1) AS what
FROM (
    SELECT table_name AS name, 'table' AS kind, comment
    FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal
    UNION ALL
    SELECT view_name, 'view', comment
    FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal
    UNION ALL
    SELECT function_name || '(' || array_to_string(parameters, ', ') || ')', 'macro', comment
    FROM duckdb_functions() WHERE schema_name = 'main' AND NOT internal
)
ORDER BY name"""
"""SQL for the tables, views and macros, each with the first sentence of its description."""


def described(name: str) -> str:
    """Return SQL for the description of a table, view or macro, with an example; ``name`` has no parentheses."""
    return f"""
SELECT comment
FROM (
    SELECT table_name AS name, comment FROM duckdb_tables() WHERE NOT internal
    UNION ALL
    SELECT view_name, comment FROM duckdb_views() WHERE NOT internal
    UNION ALL
    SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal
)
WHERE name = {quoted(name)}"""


def columns_of(name: str) -> str:
    """Return SQL for the columns of a table or view, with types and meanings."""
    return f"""
SELECT column_name, data_type, comment
FROM duckdb_columns()
WHERE table_name = {quoted(name)} AND schema_name = 'main' AND NOT internal
ORDER BY column_index"""
