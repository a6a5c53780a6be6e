-- How many holders entered, left and changed between two instants, by token and kind of wallet. holder_changes is a
-- macro of the warehouse.
SELECT
    changes.chain,
    changes.token_address,
    changes.change,
    whales.address IS NOT NULL AS is_whale_now,
    count(*) AS holders
FROM holderlake.holder_changes('{{ var("since") }}', '{{ var("until") }}') AS changes
LEFT JOIN {{ ref('whales') }} AS whales USING (chain, token_address, address)
GROUP BY ALL
