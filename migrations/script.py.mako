"""${message}.

The rule: the release before this one must still work on what this leaves behind, because its pods run until they are
replaced. So: add columns nullable or with a default; never rename or drop what that release reads (drop one release
later); build indexes CONCURRENTLY in ``op.get_context().autocommit_block()``; no statement may hold a lock on a big
table for longer than the lock timeout. ``downgrade`` undoes all of it: tests run it both ways on a real server.
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
