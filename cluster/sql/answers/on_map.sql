-- The nodes of each map that relationships join.
SELECT chain, token_address, as_of, address, is_supernode FROM top WHERE is_shown
UNION ALL
SELECT chain, token_address, as_of, address, FALSE AS is_supernode FROM magic
