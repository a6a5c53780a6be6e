-- Addresses with very many counterparties, and the second from which they have.
WITH busy AS (
    SELECT address FROM acquaintances GROUP BY address HAVING count(*) >= $supernode_degree
),
numbered AS (
    SELECT
        address,
        least(coalesce(received_at, sent_at), coalesce(sent_at, received_at)) AS second,
        row_number() OVER (
            PARTITION BY address ORDER BY least(coalesce(received_at, sent_at), coalesce(sent_at, received_at))
        ) AS place
    FROM acquaintances
    SEMI JOIN busy USING (address)
)
SELECT address, second AS since FROM numbered WHERE place = $supernode_degree
