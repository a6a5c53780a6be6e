"""Views and macros of the warehouse over the user's own store: transfers, balances, all holders, labels, entities."""
