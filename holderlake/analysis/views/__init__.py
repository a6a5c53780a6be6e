"""Views and macros of the warehouse over all tables: changes, flows, clusters through time, and rules about rows."""
