"""Find the last good run of a job by an index alone: the newest RayJobs of a namespace, with name, team and status.

Built while the archive is written and read, as in the revision before.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NAME = "ix_rayjobs_place_at"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        asked = sa.text("SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
        if op.get_bind().scalar(asked, {"name": _NAME}):
            op.execute(f"DROP INDEX CONCURRENTLY {_NAME}")
        op.execute(
            f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {_NAME}"
            " ON rayjobs (cluster, namespace, at DESC, uid DESC) INCLUDE (name, team, status)"
        )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {_NAME}")
