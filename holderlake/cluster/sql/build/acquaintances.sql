-- Pairs of addresses with transfers, over all tokens and chains: the first second at which the address received from
-- the other, and the first at which it sent to it.
WITH ends AS (
    SELECT to_address AS address, from_address AS other, first_second AS got, CAST(NULL AS BIGINT) AS gave
    FROM daily_edges
    UNION ALL
    SELECT from_address AS address, to_address AS other, CAST(NULL AS BIGINT) AS got, first_second AS gave
    FROM daily_edges
)
SELECT address, other, min(got) AS received_at, min(gave) AS sent_at
FROM ends
GROUP BY address, other
