"""The reference pages of the docs, written from the code: ``python -m docs.reference.pages``."""
