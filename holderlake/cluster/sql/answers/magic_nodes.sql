-- Magic nodes: wallets that are no top holders and have transfers with several shown holders, the most connected first.
WITH pairs AS (
    SELECT chain, token_address, as_of, other, address, sum(number) AS moved
    FROM shown_transfers
    GROUP BY chain, token_address, as_of, other, address
),
met AS (
    SELECT chain, token_address, as_of, other AS address, count(*) AS holders, sum(moved) AS transfers
    FROM pairs
    GROUP BY chain, token_address, as_of, other
    HAVING count(*) >= $magic_links
),
candidates AS (
    SELECT m.chain AS chain, m.token_address AS token_address, m.as_of AS as_of, m.address AS address,
        m.holders AS holders, m.transfers AS transfers
    FROM met AS m
    ANTI JOIN (SELECT chain, token_address, as_of, address FROM top WHERE rank <= $limit) AS t
        ON m.chain = t.chain AND m.token_address = t.token_address AND m.as_of = t.as_of AND m.address = t.address
),
ranked AS (
    SELECT s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, s.address AS address,
        row_number() OVER (
            PARTITION BY s.chain, s.token_address, s.as_of ORDER BY s.holders DESC, s.transfers DESC, s.address
        ) AS place
    FROM candidates AS s
    LEFT JOIN address_kinds AS m ON s.address = m.address
    LEFT JOIN hypernodes AS h ON s.address = h.address
    LEFT JOIN supernodes AS n ON s.address = n.address
    WHERE coalesce(m.kinds, 0) = 0
        AND coalesce(h.since, s.as_of + 1) > s.as_of
        AND coalesce(n.since, s.as_of + 1) > s.as_of
)
SELECT chain, token_address, as_of, address, place FROM ranked WHERE place <= $magic_limit
