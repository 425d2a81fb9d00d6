"""The command line of `ray`: as much of it as KubeRay calls."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from ray_standin import node, submitter


def main(arguments: list[str]) -> int:
    """Flags that mean nothing here are passed over, as in `--num-cpus=2`. Behind `--` stands a job's entrypoint."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options, _ = _parser().parse_known_args(arguments[:at])
    options.entrypoint = arguments[at + 1 :]
    try:
        return int(options.do(options))
    except OSError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1


def health_check(options: Namespace) -> int:
    """Asks the dashboard instead of the port that is named: nothing here speaks Ray's own protocol."""
    host = options.address.rpartition(":")[0]
    code, _ = submitter.Client(f"http://{host}:8265").ask("GET", "/api/gcs_healthz")
    return 0 if code == 200 else 1


def _parser() -> ArgumentParser:
    parser = ArgumentParser("ray")
    commands = parser.add_subparsers(required=True)
    _start(commands.add_parser("start", allow_abbrev=False))
    health = commands.add_parser("health-check")
    health.add_argument("--address", required=True)
    health.set_defaults(do=health_check)
    jobs = commands.add_parser("job").add_subparsers(required=True)
    for name, do in (("logs", submitter.logs), ("status", submitter.status), ("stop", submitter.stop)):
        command = jobs.add_parser(name)
        command.add_argument("name")
        command.add_argument("--address", required=True)
        command.add_argument("--follow", action="store_true")
        command.set_defaults(do=do)
    _submit(jobs.add_parser("submit"))
    return parser


def _start(parser: ArgumentParser) -> None:
    parser.add_argument("--head", action="store_true")
    parser.add_argument("--temp-dir", default="/tmp/ray")
    parser.add_argument("--node-ip-address")
    parser.add_argument("--dashboard-host", default="0.0.0.0")
    parser.add_argument("--dashboard-port", type=int, default=8265)
    parser.add_argument("--dashboard-agent-listen-port", type=int, default=52365)
    parser.set_defaults(do=node.start)


def _submit(parser: ArgumentParser) -> None:
    for name in ("--address", "--submission-id", "--runtime-env-json", "--metadata-json"):
        parser.add_argument(name)
    parser.add_argument("--no-wait", action="store_true")
    parser.set_defaults(do=submitter.submit)
