-- Addresses with a balance above zero by rank, with their kinds (1 exchange, 2 pool, 4 contract), whether a map may
-- show them, and whether they are fresh wallets. The zero address has rank 0; its negated balance is the supply.
SELECT
    h.chain AS chain,
    h.token_address AS token_address,
    h.as_of AS as_of,
    h.address AS address,
    h.low AS low,
    h.middle AS middle,
    h.high AS high,
    CASE
        WHEN h.address = $zero THEN 0
        ELSE row_number() OVER (
            PARTITION BY h.chain, h.token_address, h.as_of
            ORDER BY
                CASE WHEN h.address = $zero THEN 1 ELSE 0 END,
                coalesce(h.high, 0) DESC, coalesce(h.middle, 0) DESC, h.low DESC, h.address
        )
    END AS rank,
    coalesce(m.kinds, 0) AS kinds,
    coalesce(m.kinds, 0) = 0 AND coalesce(n.since, h.as_of + 1) > h.as_of AS is_wallet,
    coalesce(a.first_second > h.as_of - $fresh_wallet_seconds AND a.first_second <= h.as_of, FALSE) AS is_fresh
FROM balances AS h
LEFT JOIN address_kinds AS m ON h.address = m.address
LEFT JOIN hypernodes AS n ON h.address = n.address
LEFT JOIN addresses AS a ON h.address = a.address
WHERE h.address = $zero OR coalesce(h.high, h.low) >= 0
