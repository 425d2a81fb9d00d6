"""Every setting of the product, read once from ``ARCHIVER_*`` variables and handed down from there.

A secret can come from a file: ``ARCHIVER_DATABASE_URL_FILE=/run/secrets/url`` stands for ``ARCHIVER_DATABASE_URL``.
"""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from archiver.core.attribution import (
    DEFAULT_COST_CENTRE_SOURCES,
    DEFAULT_QUEUE_SOURCES,
    DEFAULT_SUBMITTER_SOURCES,
    DEFAULT_TEAM_SOURCES,
    is_source,
)
from archiver.errors import SettingsError

PREFIX = "ARCHIVER_"
Words = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    """The whole configuration. Seconds, bytes and names as the fields say."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, validate_default=True)

    home: Path = Field(
        Path("~/.local/share/rayjob-archiver"),
        description="folder for all that the embedded defaults keep: spool, local store, embedded Postgres",
    )
    cluster: str = Field(
        "default",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="name of this Kubernetes cluster in keys and rows",
    )
    namespaces: Words = Field(
        (), description="namespaces to watch, separated by commas; empty: all of them (needs cluster rights)"
    )
    kubeconfig: Path | None = Field(
        None, description="kubeconfig file; empty: in-cluster account, else the usual places"
    )
    context: str | None = Field(None, description="kubeconfig context; empty: the current one")

    store: str = Field("", description="where evidence goes: s3://BUCKET/PREFIX or a folder; empty: HOME/store")
    s3_endpoint: str | None = Field(None, description="endpoint of an S3-compatible server; empty: AWS")
    s3_region: str = Field("us-east-1", description="region of the bucket")
    s3_access_key: SecretStr | None = Field(None, description="access key; empty: the usual AWS places (role, profile)")
    s3_secret_key: SecretStr | None = Field(None, description="secret key")
    s3_path_style: bool = Field(True, description="bucket in the path rather than in the host name")
    s3_sse: str | None = Field(None, description="server-side encryption: AES256 or aws:kms")
    s3_kms_key: str | None = Field(None, description="key id for aws:kms")

    database_url: SecretStr | None = Field(
        None, description="postgresql://… of the index; empty: embedded Postgres below HOME"
    )

    spool_dir: Path | None = Field(None, description="spool folder; empty: HOME/spool")
    spool_limit_bytes: int = Field(
        2 << 30, ge=16 << 20, description="most bytes the spool may hold; beyond it capture waits"
    )

    hold_seconds: float = Field(
        0.0,
        ge=0,
        le=600,
        description="longest time a RayCluster is kept from deletion until its evidence is safe; 0: never held",
    )
    snapshot_seconds: float = Field(
        20.0, gt=0, le=300, description="time budget for reading Ray's state and node logs at the end"
    )
    state_refresh_seconds: float = Field(60.0, ge=5, description="pace of refreshing Ray's state while a job runs")
    settle_seconds: float = Field(
        10.0, ge=0, le=600, description="how long containers that go on after the job's end are still followed"
    )
    driver_poll_seconds: float = Field(
        0.25, gt=0, le=10, description="first pace of reading the driver log; grows fourfold on a quiet job"
    )
    ray_log_bytes: int = Field(
        32 << 20,
        ge=0,
        description="most bytes kept of each Ray log file of a node (raylet, gcs, workers), from its end",
    )
    ray_token_secrets: bool = Field(
        False, description="read Ray's token from the RayCluster's Secret (needs the right to get secrets)"
    )

    team_sources: Words = Field(DEFAULT_TEAM_SOURCES, description="places that name the team, first hit wins")
    queue_sources: Words = Field(DEFAULT_QUEUE_SOURCES, description="places that name the queue")
    cost_centre_sources: Words = Field(DEFAULT_COST_CENTRE_SOURCES, description="places that name the cost centre")
    submitter_sources: Words = Field(DEFAULT_SUBMITTER_SOURCES, description="places that name who submitted it")

    rules_dir: Path | None = Field(
        None, description="folder with further diagnosis rules, which override those of the same id"
    )

    lease_namespace: str | None = Field(
        None, description="namespace of the leader Lease; empty: the pod's own, and no election outside a cluster"
    )
    lease_name: str = Field("rayjob-archiver", description="name of the leader Lease")
    identity: str | None = Field(None, description="this replica's name in the Lease; empty: the host name")

    host: str = Field("127.0.0.1", description="address the web page and the health endpoint listen on")
    port: int = Field(8080, ge=0, le=65535, description="port of the web page; 0: any free one")
    probe_host: str = Field(
        "0.0.0.0",  # noqa: S104
        description="address of the watcher's health endpoint: the kubelet asks from outside",
    )
    health_port: int = Field(
        8081, ge=0, le=65535, description="port of the watcher's /livez, /readyz and /metrics; 0: any free one"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least severe log line written")
    log_format: Literal["auto", "text", "json"] = Field("auto", description="auto: text on a terminal, else JSON")

    @field_validator(
        "namespaces", "team_sources", "queue_sources", "cost_centre_sources", "submitter_sources", mode="before"
    )
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value

    @field_validator("team_sources", "queue_sources", "cost_centre_sources", "submitter_sources")
    @classmethod
    def _known_places(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [place for place in value if not is_source(place)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no place; write label:KEY, annotation:KEY or namespace")
        return value

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str) -> str:
        if "://" in value and not value.startswith(("s3://", "file://")):
            raise ValueError("write s3://BUCKET/PREFIX, or a folder")
        if value.startswith("s3://") and not urlsplit(value).netloc:
            raise ValueError("the bucket's name is missing: write s3://BUCKET/PREFIX")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *_: PydanticBaseSettingsSource,
        **__: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # load_settings reads the environment itself: it must tell unknown names and take values from files
        return (init_settings,)

    @property
    def home_dir(self) -> Path:
        return self.home.expanduser()

    @property
    def spool_path(self) -> Path:
        return self.spool_dir or self.home_dir / "spool"


@dataclass(frozen=True, slots=True)
class SettingLine:
    """One line of ``archiver settings``. ``source`` is a variable, a file, an option or ``default``."""

    name: str
    value: str
    source: str
    meaning: str


def load_settings(environ: Mapping[str, str] | None = None, **options: object) -> Settings:
    """Reads the settings; options of the command line go before the environment.

    Raises SettingsError with one sentence a mistake: unknown name (and the nearest right one), wrong value.
    """
    environ = os.environ if environ is None else environ
    values, unknown = _from_environment(environ)
    if unknown:
        raise SettingsError("; ".join(_unknown(name) for name in unknown))
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**{**values, **given})  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(dict(problem)) for problem in error.errors())) from error


def setting_lines(settings: Settings, environ: Mapping[str, str] | None = None) -> list[SettingLine]:
    """Every setting with its value (secrets masked), where it came from and what it means."""
    environ = os.environ if environ is None else environ
    lines = []
    for name, field in Settings.model_fields.items():
        variable = PREFIX + name.upper()
        source = variable if variable in environ else f"{variable}_FILE" if f"{variable}_FILE" in environ else "default"
        value = getattr(settings, name)
        if source == "default" and value != field.default:
            source = "option"
        lines.append(SettingLine(name, _shown(value), source, field.description or ""))
    return lines


def _from_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    values: dict[str, str] = {}
    unknown: list[str] = []
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(f"{PREFIX}TEST_"):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in Settings.model_fields:
            values[name] = value
        elif name.endswith("_file") and name.removesuffix("_file") in Settings.model_fields:
            values[name.removesuffix("_file")] = _read_file(variable, value)
        else:
            unknown.append(variable)
    return {name: value for name, value in values.items() if value != ""}, sorted(unknown)


def _read_file(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{variable} names the file {path}, which cannot be read: {error.strerror}") from error


def _unknown(variable: str) -> str:
    names = [PREFIX + name.upper() for name in Settings.model_fields]
    near = difflib.get_close_matches(variable, names, n=1)
    return f"there is no setting {variable}" + (
        f"; did you mean {near[0]}?" if near else "; `archiver settings` lists all"
    )


def _sentence(problem: Mapping[str, object]) -> str:
    where = problem.get("loc") or ("?",)
    name = str(where[0]) if isinstance(where, tuple) else str(where)
    return f"{PREFIX}{name.upper()} is {problem.get('input')!r}: {problem.get('msg')}"


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return _without_password(value.get_secret_value())
    if isinstance(value, tuple):
        return ",".join(str(entry) for entry in value)
    return "" if value is None else str(value)


def _without_password(value: str) -> str:
    parts = urlsplit(value)
    if not parts.hostname:
        return "‹secret›"
    user = f"{parts.username}:‹secret›@" if parts.password else ""
    host = parts.hostname + (f":{parts.port}" if parts.port else "")
    return urlunsplit((parts.scheme, user + host, parts.path, "", ""))
