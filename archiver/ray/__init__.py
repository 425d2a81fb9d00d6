"""Ray's own HTTP: the dashboard (8265) and the agent of each node (52365). Reads only; knows nothing of Kubernetes."""

from archiver.ray.client import RayClient

__all__ = ["RayClient"]
