"""Rows as Parquet files."""
