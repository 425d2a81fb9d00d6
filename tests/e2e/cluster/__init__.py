"""A real Kubernetes with KubeRay on one machine, from package registries alone.

`Cluster` runs it; `connect()` reaches it or another.
"""

from tests.e2e.cluster.cluster import COMPONENTS, Cluster
from tests.e2e.cluster.connection import S3, Connection, Postgres, connect
from tests.e2e.cluster.errors import ClusterError, Missing, NotRunning

__all__ = ["COMPONENTS", "S3", "Cluster", "ClusterError", "Connection", "Missing", "NotRunning", "Postgres", "connect"]
