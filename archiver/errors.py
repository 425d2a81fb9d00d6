"""The one tree of errors. Adapters translate foreign errors into these; retrying is a property of the class.

Not found is never an error here: functions return ``None``.
"""

from typing import ClassVar


class ArchiverError(Exception):
    """Anything this product raises on purpose. Its text is a sentence for the person who runs it."""

    retryable: ClassVar[bool] = False


class UserError(ArchiverError):
    """The user can mend it: a setting, a kubeconfig, an argument. Says what, where and what to do."""


class SettingsError(UserError):
    """A setting is unknown, missing or out of range."""


class DataError(ArchiverError):
    """Bytes that should be ours cannot be understood (a broken manifest, a frame with a wrong checksum)."""


class KubeError(ArchiverError):
    """The Kubernetes API answered with an error that has no class of its own."""


class KubeUnavailable(KubeError):
    """No answer, a timeout, a cut connection or a 5xx."""

    retryable: ClassVar[bool] = True


class KubeGone(KubeError):
    """410: the resource version is too old; list again."""

    retryable: ClassVar[bool] = True


class KubeConflict(KubeError):
    """409: the object changed in between, or exists already."""

    retryable: ClassVar[bool] = True


class KubeDenied(KubeError):
    """401 or 403. The text names the verb and the resource that the service account lacks."""


class KubeNotReady(KubeError):
    """400 of the log endpoint: the container has not started yet, or its log is not readable now."""

    retryable: ClassVar[bool] = True


class RayError(ArchiverError):
    """The Ray dashboard or a node agent answered with an error that has no class of its own."""


class RayUnavailable(RayError):
    """No route, no answer, a timeout or a 5xx."""

    retryable: ClassVar[bool] = True


class RayDenied(RayError):
    """401 or 403 of token authentication; trying again does not help."""


class StoreError(ArchiverError):
    """The object store answered with an error that has no class of its own."""


class StoreUnavailable(StoreError):
    """No answer, a timeout, 429 or a 5xx."""

    retryable: ClassVar[bool] = True


class StoreDenied(StoreError):
    """The bucket is there but refuses: a wrong key or a missing permission. Retried slowly: permissions get mended."""

    retryable: ClassVar[bool] = True


class StoreNoBucket(StoreError):
    """The bucket does not exist. Retried slowly: buckets get made."""

    retryable: ClassVar[bool] = True


class StoreConflict(StoreError):
    """A conditional write found an object there already."""


class DatabaseError(ArchiverError):
    """Postgres refused a statement."""


class DatabaseUnavailable(DatabaseError):
    """No connection, a timeout, a deadlock or a server that is going down."""

    retryable: ClassVar[bool] = True


class DatabaseOutdated(DatabaseError):
    """The tables are not those of this release. Retried slowly: somebody migrates, and all goes on."""

    retryable: ClassVar[bool] = True


class SpoolFull(ArchiverError):
    """The spool's limit is reached and the store does not take anything: capture waits."""

    retryable: ClassVar[bool] = True
