"""The engine on a cluster of machines. Spark only decides where a task runs; each task is the embedded engine.

``build`` imports files of transfers into a store on shared storage. ``answers`` computes maps and lists of holders from
such a store. ``tasks`` runs the tasks of both, and ``spark`` opens a session.
"""
