"""`ray start --block`: serves until it is told to stop, drains as Ray 2.60 does, and leaves with exit code 1."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from argparse import Namespace
from functools import partial
from pathlib import Path

from ray_standin import agent
from ray_standin.dashboard import Dashboard
from ray_standin.jobs import Jobs
from ray_standin.session import Session
from ray_standin.wire import serve

DRAIN_VARIABLE, DRAIN_SECONDS = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", 30.0


def start(options: Namespace) -> int:
    """Prints the two addresses it listens on. Blocks."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)  # whichever thread the signal comes to, this one wakes up
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    node_ip = options.node_ip_address or _own_address(options.dashboard_host)
    session = Session.begin(Path(options.temp_dir), node_ip, is_head=options.head)
    near = serve(options.dashboard_host, options.dashboard_agent_listen_port, partial(agent.answer, session))
    servers, port = [near], near.server_address[1]
    jobs = Jobs(session, f"http://{node_ip}:{port}")
    if options.head:
        dashboard = Dashboard(session, jobs)
        servers.append(serve(options.dashboard_host, options.dashboard_port, dashboard.answer))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"Ray runtime started. {' '.join(str(server.server_address[1]) for server in servers)}\n")
    sys.stdout.flush()
    os.read(told, 1)
    # everything goes on for the time of the drain: running jobs, and every endpoint
    time.sleep(float(os.environ.get(DRAIN_VARIABLE) or DRAIN_SECONDS))
    jobs.kill_all()
    return 1


def _own_address(host: str) -> str:
    """The pod's address; the loopback where only that is served."""
    if host not in ("0.0.0.0", "::"):
        return str(host)
    return socket.gethostbyname(socket.gethostname())
