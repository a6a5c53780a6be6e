-- The wallets of each map: shown holders and magic nodes.
SELECT chain, token_address, as_of, address, is_supernode, TRUE AS is_holder FROM top WHERE is_shown
UNION ALL
SELECT chain, token_address, as_of, address, FALSE AS is_supernode, FALSE AS is_holder FROM magic_nodes
