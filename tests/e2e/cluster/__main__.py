"""The command line: up, down, status, and stop, start, restart of one component."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from tests.e2e.cluster.cluster import COMPONENTS, Cluster
from tests.e2e.cluster.errors import ClusterError, Missing
from tests.e2e.cluster.layout import KUBERAY
from tests.e2e.cluster.phases import Phases

UNFIT, FAILED = 2, 1
SYSTEM_FOLDERS = ":/usr/local/sbin:/usr/sbin:/sbin"  # not everybody's PATH has them


def main(arguments: list[str] | None = None) -> int:
    """0: done. 1: it failed, or `status` found something that does not run. 2: the machine lacks something."""
    options = _parser().parse_args(arguments)
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + SYSTEM_FOLDERS
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `up` takes back what it started
    phases = Phases()
    try:
        return _do(options, Cluster(phases=phases), phases)
    except Missing as error:
        print(f"cluster: {error}", file=sys.stderr)
        return UNFIT
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up").add_argument("--kuberay", choices=sorted(KUBERAY), default="1.6")
    commands.add_parser("down")
    commands.add_parser("status")
    for name in ("stop", "start", "restart"):
        command = commands.add_parser(name)
        command.add_argument("component", choices=COMPONENTS)
        if name != "start":
            command.add_argument("--kill", action="store_true", help="by SIGKILL")
    return parser


def _do(options: argparse.Namespace, cluster: Cluster, phases: Phases) -> int:
    match options.command:
        case "up":
            connection = cluster.up(options.kuberay)
            print(phases.summary(), file=sys.stderr)
            print(f"export KUBECONFIG={connection.kubeconfig}")
        case "down":
            cluster.down()
        case "status":
            return _status(cluster)
        case "start":
            cluster.start(options.component)
        case "stop" | "restart" as verb:
            getattr(cluster, verb)(options.component, is_kill=options.kill)
    return 0


def _status(cluster: Cluster) -> int:
    states = cluster.status()
    for name, pid in states.items():
        print(f"{name:12} {f'runs as {pid}' if pid else 'does not run'}")
    return 0 if all(states.values()) and cluster.layout.env.exists() else FAILED


if __name__ == "__main__":
    sys.exit(main())
