-- The largest holders of each map, and whether each is shown and a supernode.
SELECT
    h.chain AS chain, h.token_address AS token_address, h.as_of AS as_of, h.address AS address, h.rank AS rank,
    h.is_wallet AND h.rank <= $limit AS is_shown,
    coalesce(s.since <= h.as_of, FALSE) AS is_supernode
FROM holders AS h
LEFT JOIN supernodes AS s ON h.address = s.address
WHERE h.rank BETWEEN 1 AND $most
