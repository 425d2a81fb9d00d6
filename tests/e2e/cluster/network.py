"""The bridge and the packet rules: made by us and by kube-proxy, and taken away without touching anybody else's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster import layout as at
from tests.e2e.cluster.commands import run

OWNER = "rayjob-archiver:"
CHAIN = re.compile(r"KUBE-|RJA-")
# The bridge forwards between pods (services need it), so what would leave the machine is turned back at once.
FENCE = f"""*filter
:RJA-FENCE - [0:0]
-A RJA-FENCE -j REJECT --reject-with icmp-net-unreachable
-I FORWARD -i {at.BRIDGE} ! -o {at.BRIDGE} -j RJA-FENCE
COMMIT
"""
FAMILIES = ("iptables", "ip6tables")


def bridge_owner() -> Path | None:
    """The state folder of the cluster whose bridge this is; None without a bridge."""
    try:
        alias = Path(f"/sys/class/net/{at.BRIDGE}/ifalias").read_text().strip()
    except FileNotFoundError:
        return None
    return Path(alias.removeprefix(OWNER)) if alias.startswith(OWNER) else Path("/unknown")


def add_bridge(state: Path) -> None:
    """The bridge with our address, forwarding between its ports only, and our name on it."""
    run("ip", "link", "add", at.BRIDGE, "type", "bridge")
    run("ip", "link", "set", at.BRIDGE, "alias", f"{OWNER}{state}")
    run("ip", "address", "add", f"{at.ADDRESS}/{at.POD_CIDR.split('/')[1]}", "dev", at.BRIDGE)
    run("iptables-restore", "--noflush", stdin=FENCE)
    run("ip", "link", "set", at.BRIDGE, "up")
    Path(f"/proc/sys/net/ipv4/conf/{at.BRIDGE}/forwarding").write_text("1")


def remove_bridge() -> None:
    """Pods' ends of the cables go with their namespaces; what a dead namespace left attached goes here."""
    if not Path(f"/sys/class/net/{at.BRIDGE}").exists():
        return
    for port in sorted(Path(f"/sys/class/net/{at.BRIDGE}/brif").iterdir()):
        if port.name.startswith("veth"):
            run("sh", "-c", f"ip link delete {port.name} 2>/dev/null || true")
    run("ip", "link", "delete", at.BRIDGE)


def kubernetes_chains(saved: str) -> Iterator[str]:
    """Names of the chains that a Kubernetes or this harness made, from the output of `iptables-save`."""
    for line in saved.splitlines():
        if line.startswith(":") and CHAIN.match(line[1:]):
            yield line[1:].split()[0]


def cleaning(saved: str) -> str:
    """Input for `iptables-restore --noflush` that removes a Kubernetes' rules from `saved`; empty if it has none."""
    out: list[str] = []
    for table in re.split(r"(?m)^(?=\*)", saved):
        lines = table.splitlines()
        chains = list(kubernetes_chains(table))
        if not chains:
            continue
        jumps = [line for line in lines if line.startswith("-A ") and _jumps_to_ours(line)]
        out += [lines[0], *(f"-D {line[3:]}" for line in jumps)]
        out += [f"-F {chain}" for chain in chains] + [f"-X {chain}" for chain in chains] + ["COMMIT"]
    return "\n".join(out) + "\n" if out else ""


def _jumps_to_ours(rule: str) -> bool:
    """A rule in somebody else's chain that leads to one of the chains."""
    words = rule.split()
    target = words[words.index("-j") + 1] if "-j" in words else ""
    return not CHAIN.match(words[1]) and bool(CHAIN.match(target))


def clean_rules() -> None:
    for family in FAMILIES:
        script = cleaning(run(f"{family}-save"))
        if script:
            run(f"{family}-restore", "--noflush", stdin=script)
