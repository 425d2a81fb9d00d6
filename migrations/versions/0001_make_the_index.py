"""Make the index: RayJobs as lists read them, their attempts and artifacts, and what the index knows of itself."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _make_index_state()
    _make_rayjobs()
    _index_rayjobs()
    _make_attempts()
    _index_attempts()
    _make_artifacts()


def downgrade() -> None:
    for table in ("artifacts", "attempts", "rayjobs", "index_state"):
        op.drop_table(table)


def _make_index_state() -> None:
    op.create_table(
        "index_state",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", postgresql.JSONB(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_index_state"),
    )


def _make_rayjobs() -> None:
    op.create_table(
        "rayjobs",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True)),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("job_status", sa.Text(), nullable=False),
        sa.Column("deployment_status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("team", sa.Text()),
        sa.Column("team_source", sa.Text()),
        sa.Column("queue", sa.Text()),
        sa.Column("queue_source", sa.Text()),
        sa.Column("submitter", sa.Text()),
        sa.Column("submitter_source", sa.Text()),
        sa.Column("cause", sa.Text()),
        sa.Column("category", sa.Text()),
        sa.Column("cause_title", sa.Text()),
        sa.Column("owner", sa.Text()),
        sa.Column("confidence", sa.Double()),
        sa.Column("decisive", postgresql.JSONB()),
        sa.Column("attempts", postgresql.JSONB(), nullable=False),
        sa.Column("gpus", sa.Double(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("completeness", sa.Text(), nullable=False),
        sa.Column("completeness_reason", sa.Text(), nullable=False),
        sa.Column("ray_version", sa.Text()),
        sa.Column("nodes", sa.ARRAY(sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_rayjobs"),
    )


def _index_rayjobs() -> None:
    newest = (sa.literal_column("at DESC"), sa.literal_column("uid DESC"))
    op.create_index("ix_rayjobs_at", "rayjobs", [*newest])
    for column in ("team", "namespace", "cluster", "status", "cause", "category", "queue"):
        op.create_index(f"ix_rayjobs_{column}_at", "rayjobs", [column, *newest])
    op.create_index("ix_rayjobs_name", "rayjobs", ["cluster", "namespace", "name", sa.literal_column("at DESC")])
    op.create_index("ix_rayjobs_nodes", "rayjobs", ["nodes"], postgresql_using="gin")


def _make_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("rayjob_uid", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("manifest_key", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ended_as", sa.Text(), nullable=False),
        sa.Column("job_status", sa.Text(), nullable=False),
        sa.Column("deployment_status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True)),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("captured_at", sa.DateTime(timezone=True)),
        sa.Column("lag_seconds", sa.Double()),
        sa.Column("margin_seconds", sa.Double()),
        sa.Column("completeness", sa.Text(), nullable=False),
        sa.Column("completeness_reason", sa.Text(), nullable=False),
        sa.Column("retention_class", sa.Text(), nullable=False),
        sa.Column("gpus", sa.Double(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("cpu_seconds", sa.Double(), nullable=False),
        sa.Column("cause", sa.Text()),
        sa.Column("category", sa.Text()),
        sa.Column("confidence", sa.Double()),
        sa.Column("ruleset", sa.Text()),
        sa.Column("fingerprint", sa.Text()),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rayjob_uid"],
            ["rayjobs.uid"],
            name="fk_attempts_rayjobs",
            ondelete="CASCADE",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("rayjob_uid", "number", name="pk_attempts"),
    )


def _index_attempts() -> None:
    op.create_index("ix_attempts_captured_at", "attempts", ["captured_at"])
    op.create_index(
        "ix_attempts_fingerprint", "attempts", ["fingerprint"], postgresql_where=sa.text("fingerprint IS NOT NULL")
    )
    op.create_index("ix_attempts_open", "attempts", ["created_at"], postgresql_where=sa.text("state = 'open'"))


def _make_artifacts() -> None:
    op.create_table(
        "artifacts",
        sa.Column("rayjob_uid", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("raw_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("completeness", sa.Text(), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rayjob_uid", "number"],
            ["attempts.rayjob_uid", "attempts.number"],
            name="fk_artifacts_attempts",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rayjob_uid", "number", "position", name="pk_artifacts"),
    )
    op.create_index(
        "ix_artifacts_not_complete",
        "artifacts",
        ["completeness"],
        postgresql_where=sa.text("completeness <> 'complete'"),
    )
