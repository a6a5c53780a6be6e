"""The forms of an answer: JSON, Arrow, Parquet, and the API description."""
