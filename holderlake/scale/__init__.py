"""Scale: several machines. Spark runs the engine on a cluster, buckets keep the lake, Iceberg tables publish it.

Each part is an extra. It may import the core and the engine; operations and the command line import it.
"""
