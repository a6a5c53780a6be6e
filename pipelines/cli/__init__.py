"""Commands of ``holderlake`` in modules of their own; ``pipelines.cli.main`` puts them together."""
