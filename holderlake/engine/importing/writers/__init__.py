"""Writers of array files: ``parts`` writes the transfers and balances of a token, ``runs`` the adjacency."""
