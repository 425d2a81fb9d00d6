"""Postgres: tables, writes and queries of the rebuildable index. Not the truth, which is the bucket."""
