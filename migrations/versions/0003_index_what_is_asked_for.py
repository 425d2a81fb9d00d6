"""Index what the revision before brought, while the archive is written and read.

Each index is built concurrently, which no transaction can hold together: one that was cut off halfway is thrown away and
built anew, and one that is there already is left alone.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_KNOWN = "WHERE fingerprint IS NOT NULL"
_INDEXES = {
    "ix_attempts_at": "attempts (at DESC)",
    "ix_attempts_incomplete": "attempts (at DESC) WHERE completeness <> 'complete'",
    "ix_attempts_fingerprint_at": f"attempts (fingerprint, at DESC) {_KNOWN}",
    "ix_rayjobs_fingerprint_at": f"rayjobs (fingerprint, at DESC, uid DESC) {_KNOWN}",
    "ix_rayjobs_gpu_seconds": "rayjobs (gpu_seconds DESC, uid DESC)",
    "ix_rayjobs_images": "rayjobs USING gin (images)",
    "ix_rayjobs_name_grams": "rayjobs USING gin (name_grams)",
}


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for name, on in _INDEXES.items():
            if _is_broken(name):
                op.execute(f"DROP INDEX CONCURRENTLY {name}")
            op.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {on}")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name in _INDEXES:
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


def _is_broken(name: str) -> bool:
    asked = sa.text("SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
    return bool(op.get_bind().scalar(asked, {"name": name}))
