-- The wallets that hold a token at an instant and have one owner with other holders, the largest owners first: up to 200
-- wallets of each. owner_share, owner_amount and wallets are sums over all of them. Only own stores have owners.
SELECT
    owners.owner,
    held.address,
    held.share,
    exact_amount(held.amount, held.amount_exact) AS amount,
    entities.confidence,
    array_to_string(entities.kinds, ', ') AS kinds,
    owners.share AS owner_share,
    exact_amount(owners.amount, owners.amount_exact) AS owner_amount,
    owners.wallets
FROM holders_by_owner($token, CAST($at AS TIMESTAMPTZ)) AS owners
JOIN entities_as_of(CAST($at AS TIMESTAMPTZ)) AS entities ON entities.entity = owners.owner
JOIN balances_at($token, CAST($at AS TIMESTAMPTZ)) AS held
    ON held.chain = owners.chain AND held.address = entities.address
WHERE owners.chain = $chain AND owners.wallets > 1
QUALIFY row_number() OVER (PARTITION BY owners.owner ORDER BY held.share DESC, held.address) <= 200
ORDER BY owners.rank, held.share DESC, held.address
LIMIT 20000
