"""Count what failed by day and by kind, find names by their parts, and remember what people say.

``attempt_days`` and ``group_days`` are kept by a trigger on ``attempts``, so that every way to write counts alike. Their
keys are hashes, because a B-tree entry must fit a third of a page and names may be long.
"""

# ruff: noqa: S608  every statement here is made of constants
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NO_WORDS = sa.text("'{}'::text[]")
_TIMES = "at, ended_at, started_at, created_at"
_CHANGED = f"cluster, namespace, team, ended_as, category, cause, fingerprint, gpu_seconds, {_TIMES}"
# the moment of an attempt, also of one that a release without the column wrote
_AT = "coalesce(at, ended_at, started_at, created_at, 'epoch'::timestamptz)"
_FAILURES = "('failed', 'retried', 'invalid', 'deleted')"
_DAYS = f"""
INSERT INTO attempt_days AS kept (day, key, cluster, namespace, team, ended_as, category, cause, attempts, gpu_seconds)
SELECT * FROM (
  SELECT ({_AT} AT TIME ZONE 'UTC')::date AS day,
         md5(concat_ws(chr(31), cluster, namespace, coalesce(team, ''), ended_as, coalesce(category, ''),
                       coalesce(cause, '')))::uuid AS key,
         cluster, namespace, coalesce(team, '') AS team, ended_as, coalesce(category, '') AS category,
         coalesce(cause, '') AS cause, sum(sign) AS attempts, sum(sign * gpu_seconds) AS gpu_seconds
  FROM (%s) AS changed GROUP BY 1, 2, 3, 4, 5, 6, 7, 8) AS sums
WHERE attempts <> 0 OR gpu_seconds <> 0 ORDER BY day, key
ON CONFLICT (day, key) DO UPDATE
SET attempts = kept.attempts + excluded.attempts, gpu_seconds = kept.gpu_seconds + excluded.gpu_seconds
"""
_GROUPS = f"""
INSERT INTO group_days AS kept
       (fingerprint, day, key, cluster, namespace, team, category, cause, attempts, gpu_seconds, first_at, last_at)
SELECT * FROM (
  SELECT fingerprint, ({_AT} AT TIME ZONE 'UTC')::date AS day,
         md5(concat_ws(chr(31), cluster, namespace, coalesce(team, ''), coalesce(category, ''),
                       coalesce(cause, '')))::uuid AS key,
         cluster, namespace, coalesce(team, '') AS team, coalesce(category, '') AS category,
         coalesce(cause, '') AS cause, sum(sign) AS attempts, sum(sign * gpu_seconds) AS gpu_seconds,
         min({_AT}) AS first_at, max({_AT}) AS last_at
  FROM (%s) AS changed WHERE fingerprint IS NOT NULL AND ended_as IN {_FAILURES}
  GROUP BY 1, 2, 3, 4, 5, 6, 7, 8) AS sums
WHERE attempts <> 0 OR gpu_seconds <> 0 ORDER BY fingerprint, day, key
ON CONFLICT (fingerprint, day, key) DO UPDATE
SET attempts = kept.attempts + excluded.attempts, gpu_seconds = kept.gpu_seconds + excluded.gpu_seconds,
    first_at = least(kept.first_at, excluded.first_at), last_at = greatest(kept.last_at, excluded.last_at)
"""
_FUNCTION = f"""
CREATE FUNCTION count_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed text := CASE TG_OP
  WHEN 'INSERT' THEN 'SELECT 1 AS sign, {_CHANGED} FROM come'
  WHEN 'DELETE' THEN 'SELECT -1 AS sign, {_CHANGED} FROM gone'
  ELSE 'SELECT -1 AS sign, {_CHANGED} FROM gone UNION ALL SELECT 1, {_CHANGED} FROM come' END;
BEGIN
  -- two writers that count the same days in another order would wait for each other for ever
  PERFORM pg_advisory_xact_lock(7162002);
  EXECUTE format($days${_DAYS}$days$, changed);
  EXECUTE format($groups${_GROUPS}$groups$, changed);
  RETURN NULL;
END $$
"""


def upgrade() -> None:
    _widen_attempts()
    _widen_rayjobs()
    _make_counts()
    _fill()
    _index()
    _make_trigger()
    _make_people()


def downgrade() -> None:
    op.execute("DROP TRIGGER count_inserted ON attempts")
    op.execute("DROP TRIGGER count_updated ON attempts")
    op.execute("DROP TRIGGER count_deleted ON attempts")
    op.execute("DROP FUNCTION count_attempts()")
    for table in ("group_decisions", "feedback", "group_days", "attempt_days"):
        op.drop_table(table)
    for column in ("fingerprint", "images", "name_grams"):
        op.drop_column("rayjobs", column)
    op.create_index(
        "ix_attempts_fingerprint", "attempts", ["fingerprint"], postgresql_where=sa.text("fingerprint IS NOT NULL")
    )
    for column in ("at", "team", "queue", "nodes", "images"):
        op.drop_column("attempts", column)


def _widen_attempts() -> None:
    op.add_column("attempts", sa.Column("at", sa.DateTime(timezone=True)))
    op.add_column("attempts", sa.Column("team", sa.Text()))
    op.add_column("attempts", sa.Column("queue", sa.Text()))
    op.add_column("attempts", sa.Column("nodes", sa.ARRAY(sa.Text()), nullable=False, server_default=_NO_WORDS))
    op.add_column("attempts", sa.Column("images", sa.ARRAY(sa.Text()), nullable=False, server_default=_NO_WORDS))
    op.drop_index("ix_attempts_fingerprint", "attempts")


def _widen_rayjobs() -> None:
    op.add_column("rayjobs", sa.Column("fingerprint", sa.Text()))
    op.add_column("rayjobs", sa.Column("images", sa.ARRAY(sa.Text()), nullable=False, server_default=_NO_WORDS))
    op.add_column("rayjobs", sa.Column("name_grams", sa.ARRAY(sa.Text()), nullable=False, server_default=_NO_WORDS))


def _make_counts() -> None:
    op.create_table(
        "attempt_days",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("ended_as", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("day", "key", name="pk_attempt_days"),
    )
    op.create_table(
        "group_days",
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", "day", "key", name="pk_group_days"),
    )


def _make_trigger() -> None:
    op.execute(_FUNCTION)
    for name, event, tables in (
        ("count_inserted", "INSERT", "NEW TABLE AS come"),
        ("count_updated", "UPDATE", "OLD TABLE AS gone NEW TABLE AS come"),
        ("count_deleted", "DELETE", "OLD TABLE AS gone"),
    ):
        op.execute(
            f"CREATE TRIGGER {name} AFTER {event} ON attempts REFERENCING {tables}"
            " FOR EACH STATEMENT EXECUTE FUNCTION count_attempts()"
        )


def _fill() -> None:
    """What the release before wrote, from the documents; before the trigger, which would count each row twice."""
    op.execute(
        """
        UPDATE attempts SET at = coalesce(ended_at, started_at, created_at, captured_at, 'epoch'),
          team = left(document->'team'->>'value', 300), queue = left(document->'queue'->>'value', 300),
          nodes = ARRAY(SELECT DISTINCT left(value, 300) COLLATE "C" AS word
                        FROM jsonb_array_elements_text(document->'nodes') AS value ORDER BY word),
          images = ARRAY(SELECT DISTINCT left(value, 300) COLLATE "C" AS word
                         FROM jsonb_each_text(document->'images') ORDER BY word)
        """
    )
    op.execute(
        """
        UPDATE rayjobs SET
          fingerprint = (SELECT a.fingerprint FROM attempts AS a WHERE a.rayjob_uid = uid ORDER BY number DESC LIMIT 1),
          images = ARRAY(SELECT DISTINCT word COLLATE "C" FROM attempts AS a, unnest(a.images) AS word
                         WHERE a.rayjob_uid = uid ORDER BY 1),
          name_grams = ARRAY(SELECT DISTINCT substr(translate(name, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
            'abcdefghijklmnopqrstuvwxyz'), place, 3) FROM generate_series(1, length(name) - 2) AS place)
        """
    )
    everything = f"SELECT 1 AS sign, {_CHANGED} FROM attempts"
    op.execute(sa.text((_DAYS % everything).replace(":", "\\:")))
    op.execute(sa.text((_GROUPS % everything).replace(":", "\\:")))


def _index() -> None:
    """Those on tables that this revision made. Those on the large ones come with the next, without a lock."""
    op.create_index("ix_group_days_day", "group_days", ["day"])
    op.create_index("ix_group_days_fingerprint_first_at", "group_days", ["fingerprint", "first_at"])


def _make_people() -> None:
    op.create_table(
        "feedback",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("rayjob_uid", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_feedback"),
    )
    op.create_index("ix_feedback_rayjob_uid_number", "feedback", ["rayjob_uid", "number"])
    op.create_index("ix_feedback_at_key", "feedback", ["at", "key"])
    op.create_table(
        "group_decisions",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_group_decisions"),
    )
    op.create_index(
        "ix_group_decisions_fingerprint_at", "group_decisions", ["fingerprint", sa.literal_column("at DESC")]
    )
