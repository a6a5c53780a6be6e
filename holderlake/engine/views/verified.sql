-- The newest comparison of each token's stored transfers with a node ('holderlake import verify'), one row a token. balances
-- says whether its supply and a sample of its balances are those of its contract: equal, different (the token changes
-- balances without transfers, as rebasing tokens and tokens with a fee do) or unknown (the node keeps no state of the
-- past, or rows are missing). blocks are those that were compared, fewer than from first_block to last_block if the
-- check took samples. Rows of the store that are newer than last_block are not checked.
-- Example: SELECT symbol, is_complete, balances, last_block, as_of FROM verified JOIN symbols USING (chain, token_address) ORDER BY symbol;
CREATE OR REPLACE VIEW verified AS
FROM _internal.stored_checks;
