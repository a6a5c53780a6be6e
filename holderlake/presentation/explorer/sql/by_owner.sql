-- How concentrated a token is at an instant by wallet, by certain owners and by all owners, and the second (unix) of the
-- search for owners.
SELECT
    * EXCLUDE (chain),
    CAST(epoch(entity_search_at(CAST($at AS TIMESTAMPTZ))) AS BIGINT) AS searched
FROM concentration_by_owner($token, CAST($at AS TIMESTAMPTZ))
WHERE chain = $chain
ORDER BY list_position(['wallets', 'certain owners', 'owners'], holders)
