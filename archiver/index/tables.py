"""The tables of the index, as SQLAlchemy Core knows them. The migrations make them; a test holds the two together.

Everything here can be rebuilt from the bucket. ``rayjobs`` is what lists read: narrow, denormalised, one row a RayJob.
``attempts`` and ``artifacts`` carry the manifest: typed columns for what is asked for, ``document`` for the rest.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
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


def _words(name: str) -> Column[list[str]]:
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'::text[]"))


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
    _text("fingerprint", nullable=True),
    _words("images"),
    _words("name_grams"),  # every three characters of the name, in lower case: for looking into names
)

# Keyset lists: newest first by (at, uid), also when narrowed by one field of low selectivity.
for _field in ("team", "namespace", "cluster", "status", "cause", "category", "queue"):
    Index(f"ix_rayjobs_{_field}_at", rayjobs.c[_field], rayjobs.c.at.desc(), rayjobs.c.uid.desc())
Index("ix_rayjobs_at", rayjobs.c.at.desc(), rayjobs.c.uid.desc())
Index("ix_rayjobs_gpu_seconds", rayjobs.c.gpu_seconds.desc(), rayjobs.c.uid.desc())
Index(
    "ix_rayjobs_place_at",
    rayjobs.c.cluster,
    rayjobs.c.namespace,
    rayjobs.c.at.desc(),
    rayjobs.c.uid.desc(),
    postgresql_include=["name", "team", "status"],
)
Index("ix_rayjobs_name", rayjobs.c.cluster, rayjobs.c.namespace, rayjobs.c.name, rayjobs.c.at.desc())
for _field in ("nodes", "images", "name_grams"):
    Index(f"ix_rayjobs_{_field}", rayjobs.c[_field], postgresql_using="gin")
Index(
    "ix_rayjobs_fingerprint_at",
    rayjobs.c.fingerprint,
    rayjobs.c.at.desc(),
    rayjobs.c.uid.desc(),
    postgresql_where=text("fingerprint IS NOT NULL"),
)

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
    _time("at"),  # what it is counted at: its end, or its start while it runs
    _text("team", nullable=True),
    _text("queue", nullable=True),
    _words("nodes"),
    _words("images"),
)
Index("ix_attempts_captured_at", attempts.c.captured_at)
Index("ix_attempts_open", attempts.c.created_at, postgresql_where=text("state = 'open'"))
Index("ix_attempts_at", attempts.c.at.desc())
Index("ix_attempts_incomplete", attempts.c.at.desc(), postgresql_where=text("completeness <> 'complete'"))
Index(
    "ix_attempts_fingerprint_at",
    attempts.c.fingerprint,
    attempts.c.at.desc(),
    postgresql_where=text("fingerprint IS NOT NULL"),
)

# Counts by day (UTC), kept by a trigger on ``attempts`` (migration 0002). ``key`` is a hash of the words: they may be
# long. A row whose ``attempts`` is 0 says nothing.
attempt_days = Table(
    "attempt_days",
    metadata,
    Column("day", Date, primary_key=True),
    Column("key", Uuid, primary_key=True),
    _text("cluster"),
    _text("namespace"),
    _text("team"),
    _text("ended_as"),
    _text("category"),
    _text("cause"),
    Column("attempts", BigInteger, nullable=False),
    Column("gpu_seconds", Double, nullable=False),
)
# The same for attempts that failed, by what groups them.
group_days = Table(
    "group_days",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("key", Uuid, primary_key=True),
    _text("cluster"),
    _text("namespace"),
    _text("team"),
    _text("category"),
    _text("cause"),
    Column("attempts", BigInteger, nullable=False),
    Column("gpu_seconds", Double, nullable=False),
    _time("first_at", nullable=False),
    _time("last_at", nullable=False),
)
Index("ix_group_days_day", group_days.c.day)
Index("ix_group_days_fingerprint_first_at", group_days.c.fingerprint, group_days.c.first_at)

# What people said. ``key`` is the object's key in the bucket, which has the same document.
feedback = Table(
    "feedback",
    metadata,
    Column("key", Text, primary_key=True),
    _text("rayjob_uid"),
    Column("number", Integer, nullable=False),
    _time("at", nullable=False),
    Column("document", JSONB, nullable=False),
)
Index("ix_feedback_rayjob_uid_number", feedback.c.rayjob_uid, feedback.c.number)
Index("ix_feedback_at_key", feedback.c.at, feedback.c.key)
group_decisions = Table(
    "group_decisions",
    metadata,
    Column("key", Text, primary_key=True),
    _text("fingerprint"),
    _time("at", nullable=False),
    Column("document", JSONB, nullable=False),
)
Index("ix_group_decisions_fingerprint_at", group_decisions.c.fingerprint, group_decisions.c.at.desc())

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
