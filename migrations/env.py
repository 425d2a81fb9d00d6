"""What Alembic runs for each command. The connection comes from ``archiver.index.migrate``; there is no offline mode."""

from alembic import context

from archiver.index.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    compare_server_default=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
