"""The tables of the index, as SQLAlchemy Core knows them. The migrations make them; a test holds the two together.

Everything here can be rebuilt from the bucket. ``rayjobs`` is what lists read: narrow, denormalised, one row a RayJob.
``attempts`` and ``artifacts`` carry the manifest: typed columns for what is asked for, ``document`` for the rest.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _time(name: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


rayjobs = Table(
    "rayjobs",
    metadata,
    Column("uid", Text, primary_key=True),
    _text("cluster"),
    _text("namespace"),
    _text("name"),
    # what lists sort by: the end of the newest attempt, or the start of one that runs
    _time("at", nullable=False),
    _time("created_at"),
    _time("started_at"),
    _time("ended_at"),
    _text("status"),
    _text("job_status"),
    _text("deployment_status"),
    _text("reason"),
    _text("team", nullable=True),
    _text("team_source", nullable=True),
    _text("queue", nullable=True),
    _text("queue_source", nullable=True),
    _text("submitter", nullable=True),
    _text("submitter_source", nullable=True),
    _text("cause", nullable=True),
    _text("category", nullable=True),
    _text("cause_title", nullable=True),
    _text("owner", nullable=True),
    Column("confidence", Double),
    Column("decisive", JSONB),  # the one line that says most: source, artifact, line, text
    Column("attempts", JSONB, nullable=False),  # the strip of a list row, oldest first
    Column("gpus", Double, nullable=False),
    Column("gpu_seconds", Double, nullable=False),
    _text("completeness"),
    _text("completeness_reason"),
    _text("ray_version", nullable=True),
    Column("nodes", ARRAY(Text), nullable=False),
)

# Keyset lists: newest first by (at, uid), also when narrowed by one field of low selectivity.
for _field in ("team", "namespace", "cluster", "status", "cause", "category", "queue"):
    Index(f"ix_rayjobs_{_field}_at", rayjobs.c[_field], rayjobs.c.at.desc(), rayjobs.c.uid.desc())
Index("ix_rayjobs_at", rayjobs.c.at.desc(), rayjobs.c.uid.desc())
Index("ix_rayjobs_name", rayjobs.c.cluster, rayjobs.c.namespace, rayjobs.c.name, rayjobs.c.at.desc())
Index("ix_rayjobs_nodes", rayjobs.c.nodes, postgresql_using="gin")

attempts = Table(
    "attempts",
    metadata,
    Column(
        "rayjob_uid",
        Text,
        # checked at commit: a batch writes attempts first, then the RayJob rows that sum them up
        ForeignKey("rayjobs.uid", ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        primary_key=True,
    ),
    Column("number", Integer, primary_key=True),
    _text("manifest_key"),
    Column("revision", BigInteger, nullable=False),
    _text("state"),
    _text("cluster"),
    _text("namespace"),
    _text("name"),
    _text("ended_as"),
    _text("job_status"),
    _text("deployment_status"),
    _text("reason"),
    _time("created_at"),
    _time("started_at"),
    _time("ended_at"),
    _time("captured_at"),
    Column("lag_seconds", Double),  # from the end to safe
    Column("margin_seconds", Double),  # from safe to the deletion of the cluster
    _text("completeness"),
    _text("completeness_reason"),
    _text("retention_class"),
    Column("gpus", Double, nullable=False),
    Column("gpu_seconds", Double, nullable=False),
    Column("cpu_seconds", Double, nullable=False),
    _text("cause", nullable=True),
    _text("category", nullable=True),
    Column("confidence", Double),
    _text("ruleset", nullable=True),
    _text("fingerprint", nullable=True),
    Column("document", JSONB, nullable=False),  # the manifest without its artifacts
)
Index("ix_attempts_captured_at", attempts.c.captured_at)
Index("ix_attempts_open", attempts.c.created_at, postgresql_where=text("state = 'open'"))
Index("ix_attempts_fingerprint", attempts.c.fingerprint, postgresql_where=text("fingerprint IS NOT NULL"))

artifacts = Table(
    "artifacts",
    metadata,
    Column("rayjob_uid", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),  # its place in the manifest
    _text("name"),
    _text("kind"),
    _text("key"),
    Column("raw_bytes", BigInteger, nullable=False),
    Column("stored_bytes", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),
    _text("sha256"),
    _text("completeness"),
    Column("document", JSONB, nullable=False),  # the artifact as the manifest has it
    ForeignKeyConstraint(
        ["rayjob_uid", "number"],
        ["attempts.rayjob_uid", "attempts.number"],
        name="fk_artifacts_attempts",
        ondelete="CASCADE",
    ),
)
Index("ix_artifacts_not_complete", artifacts.c.completeness, postgresql_where=text("completeness <> 'complete'"))

# What the index knows of itself: which bucket it mirrors, when it was last rebuilt. Not part of what a rebuild compares.
index_state = Table(
    "index_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", JSONB, nullable=False),
    _time("updated_at", nullable=False),
)
