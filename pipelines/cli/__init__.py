"""Commands of ``holderlake`` in modules of their own; ``pipelines.cli`` puts them together."""
