"""A Kubernetes API with KubeRay and Ray behind it, in one process, for the demo and for tests.

It serves live objects and replays recordings of dying RayJobs. Not a cluster: nothing is scheduled and nothing runs.
"""

from archiver.sandbox.builtin import load_builtin_recordings
from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.podstates import ContainerEnd
from archiver.sandbox.raynode import NodeState, RayNode
from archiver.sandbox.recording import Recording, RecordingError
from archiver.sandbox.recordingfile import read_recording, write_recording
from archiver.sandbox.server import SandboxServer

__all__ = [
    "ContainerEnd",
    "NodeState",
    "RayNode",
    "Recording",
    "RecordingError",
    "SandboxCluster",
    "SandboxServer",
    "load_builtin_recordings",
    "read_recording",
    "write_recording",
]
