"""How the index's tables change from release to release. Run through ``archiver.index.migrate``; no alembic.ini."""
