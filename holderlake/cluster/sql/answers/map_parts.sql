-- All parts of each map except its holders: a row for each fact, magic node, link and time window.
SELECT
    chain, token_address, as_of, 'fact' AS piece, CAST(0 AS BIGINT) AS place, address AS one,
    CAST(NULL AS VARCHAR) AS other, CAST(NULL AS VARCHAR) AS moved_chain, CAST(NULL AS VARCHAR) AS moved_token,
    CAST(NULL AS DECIMAL(38, 0)) AS low, CAST(NULL AS DECIMAL(38, 0)) AS middle, CAST(NULL AS DECIMAL(38, 0)) AS high,
    CAST(NULL AS BIGINT) AS number, begun, CAST(NULL AS BIGINT) AS ended, degree, inward, outward, name, entity_id,
    kinds
FROM address_facts
UNION ALL
SELECT
    chain, token_address, as_of, 'magic' AS piece, place, address AS one,
    NULL AS other, NULL AS moved_chain, NULL AS moved_token,
    NULL AS low, NULL AS middle, NULL AS high, NULL AS number, NULL AS begun, NULL AS ended,
    NULL AS degree, NULL AS inward, NULL AS outward, NULL AS name, NULL AS entity_id, NULL AS kinds
FROM magic_nodes
UNION ALL
SELECT
    chain, token_address, as_of, 'link' AS piece, 0 AS place, from_address AS one,
    to_address AS other, moved_chain, moved_token,
    CAST(low_moved AS DECIMAL(38, 0)) AS low, CAST(middle_moved AS DECIMAL(38, 0)) AS middle,
    CAST(high_moved AS DECIMAL(38, 0)) AS high, CAST(transfers AS BIGINT) AS number, first_second AS begun,
    last_second AS ended,
    NULL AS degree, NULL AS inward, NULL AS outward, NULL AS name, NULL AS entity_id, NULL AS kinds
FROM links
UNION ALL
SELECT
    chain, token_address, as_of, 'window' AS piece, place, exchange AS one,
    NULL AS other, NULL AS moved_chain, NULL AS moved_token,
    NULL AS low, NULL AS middle, NULL AS high, NULL AS number, NULL AS begun, NULL AS ended,
    NULL AS degree, NULL AS inward, NULL AS outward, NULL AS name, NULL AS entity_id, NULL AS kinds
FROM windows
UNION ALL
SELECT
    chain, token_address, as_of, 'link' AS piece, place, from_address AS one,
    to_address AS other, moved_chain, moved_token,
    CAST(low_moved AS DECIMAL(38, 0)) AS low, CAST(middle_moved AS DECIMAL(38, 0)) AS middle,
    CAST(high_moved AS DECIMAL(38, 0)) AS high, CAST(number AS BIGINT) AS number, begun, ended,
    NULL AS degree, NULL AS inward, NULL AS outward, NULL AS name, NULL AS entity_id, NULL AS kinds
FROM window_links
