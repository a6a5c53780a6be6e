"""A local web page over the warehouse, read-only: bubble maps through time, holders, clusters, concentration."""
