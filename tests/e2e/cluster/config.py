"""Configuration files as text: pure functions of the layout, written by whoever starts a component."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import yaml

from tests.e2e.cluster import layout as at
from tests.e2e.cluster.layout import Layout

ROLES = {
    "admin": ("admin", "system:masters"),
    "controller": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": (f"system:node:{at.NODE}", "system:nodes"),
    "proxy": ("system:kube-proxy", ""),
    "coredns": ("coredns", ""),
    "norights": ("norights", ""),
}


def token_file(tokens: dict[str, str]) -> str:
    """The API server's static token file: token, user, uid, groups."""
    return "".join(f'{tokens[role]},{user},{role},"{group}"\n' for role, (user, group) in ROLES.items())


def kubeconfig(token: str, certificate_authority: bytes | None) -> str:
    """A kubeconfig for one token. Without a certificate (the API server has yet to make it) nothing is verified."""
    cluster: dict[str, object] = {"server": f"https://{at.at('apiserver')}"}
    if certificate_authority is None:
        cluster["insecure-skip-tls-verify"] = True
    else:
        cluster["certificate-authority-data"] = base64.b64encode(certificate_authority).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }
    return yaml.safe_dump(document, sort_keys=False)


def kubelet(layout: Layout) -> str:
    """A kubelet in a sandbox: no systemd, perhaps cgroup v1, no eviction by a busy disk, Docker-like log rotation."""
    address, port = at.PORTS["kubelet"]
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": port,
        "healthzPort": at.PORTS["kubelet-health"][1],
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{at.CGROUP}",
        "clusterDNS": [at.ADDRESS],
        "clusterDomain": "cluster.local",
        "containerLogMaxFiles": 5,
        "containerLogMaxSize": "10Mi",
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "maxPods": 250,
        "nodeStatusUpdateFrequency": "5s",
        "oomScoreAdj": 0,
        "podLogsDir": str(layout.state / "pods"),
        "registerNode": True,
        "resolvConf": "",
        "serializeImagePulls": False,
        "shutdownGracePeriod": "0s",
    }
    return yaml.safe_dump(document)


def proxy(layout: Layout) -> str:
    """kube-proxy that leaves the machine's connection tracking and loopback routing as they are.

    What goes through a service is masqueraded: pods share one bridge, where an answer would bypass the translation.
    """
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": at.ADDRESS,
        "healthzBindAddress": at.at("proxy-health"),
        "metricsBindAddress": "",
        "clientConnection": {"kubeconfig": str(layout.run / "proxy.kubeconfig")},
        "clusterCIDR": at.POD_CIDR,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "hostnameOverride": at.NODE,
        "iptables": {"masqueradeAll": True, "localhostNodePorts": False, "minSyncPeriod": "0s"},
        "mode": "iptables",
        "nodePortAddresses": [f"{at.ADDRESS}/32"],
        "oomScoreAdj": 0,
    }
    return yaml.safe_dump(document)


def containerd(layout: Layout, cni_plugins: Path) -> str:
    """containerd 2 with its CRI service; `restrict_oom_score_adj` for machines without CAP_SYS_RESOURCE."""
    cri = "plugins.'io.containerd.cri.v1"
    return f"""version = 3
root = "{layout.state}/containerd"
state = "{layout.run}/containerd"
disabled_plugins = [
  "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.differ.v1.erofs",
]

[grpc]
address = "{layout.containerd_socket}"

[ttrpc]
address = "{layout.containerd_socket}.ttrpc"

[{cri}.images']
snapshotter = "overlayfs"

[{cri}.images'.pinned_images]
sandbox = "{at.REGISTRY}/pause:1"

[{cri}.runtime']
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
enable_selinux = false

[{cri}.runtime'.cni]
bin_dirs = ["{cni_plugins}"]
conf_dir = "{layout.run}/cni"

[{cri}.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[{cri}.runtime'.containerd.runtimes.runc.options]
Root = "{layout.run}/runc"
SystemdCgroup = false
"""


def cni(layout: Layout) -> str:
    """Pods on our bridge, with addresses from its range and no way out of the machine."""
    document = {
        "cniVersion": "1.0.0",
        "name": at.BRIDGE,
        "plugins": [
            {
                "type": "bridge",
                "bridge": at.BRIDGE,
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(layout.state / "addresses"),
                    "ranges": [[{"subnet": at.POD_CIDR, "rangeStart": "10.89.1.1", "gateway": at.ADDRESS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }
    return json.dumps(document, indent=2)


def corefile(layout: Layout) -> str:
    """Cluster names only: without an upstream every other name is unknown at once."""
    return f""".:53 {{
    bind {at.ADDRESS}
    errors
    ready {at.at("coredns-ready")}
    cache 5
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {layout.run}/coredns.kubeconfig local
        pods insecure
        ttl 5
    }}
}}
"""


def host_based_access() -> str:
    """Postgres: everybody from this machine and from the pods, by password."""
    lines = [f"host all all {source} scram-sha-256" for source in ("127.0.0.1/32", f"{at.ADDRESS}/32", at.POD_CIDR)]
    return "\n".join(lines) + "\n"


def postgres() -> str:
    """Settings after initdb's: both addresses, no socket file, nothing in shared memory, no waiting for the disk."""
    address, port = at.PORTS["postgres"]
    return f"""
listen_addresses = '127.0.0.1,{address}'
port = {port}
unix_socket_directories = ''
dynamic_shared_memory_type = mmap
max_connections = 200
fsync = off
log_min_messages = warning
"""
