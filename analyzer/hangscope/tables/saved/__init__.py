"""Saved jobs: a folder of Parquet files with the tables for people, and what the analysis needs to be repeated."""
