"""One module a stream: the tables that one kind of request fills, and what is asked for them."""
