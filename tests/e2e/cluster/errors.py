"""What goes wrong while the cluster is built, started or reached. Every text is for a person and names the thing."""


class ClusterError(Exception):
    """The cluster could not be brought to the asked state."""


class Missing(ClusterError):
    """The machine lacks something that the cluster needs; nothing was started."""


class NotRunning(ClusterError):
    """There is no cluster to talk to."""
