"""Maps as of any second: nodes, links, clusters, evidence, and many maps in one pass."""
