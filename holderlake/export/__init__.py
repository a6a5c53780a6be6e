"""Tables and queries as files, and the report page of a token. Everything here reads the warehouse only."""
