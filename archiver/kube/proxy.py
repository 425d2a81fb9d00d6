"""``ports.KubeProxy`` over the API server: what the Ray adapter goes through where pod addresses cannot be reached."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote

from archiver.errors import KubeUnavailable
from archiver.kube.objects import ApiServerObjects, ProxyKind, ProxyRequest, ProxyTarget
from archiver.ports import HttpAnswer

_ANSWER_LIMIT_BYTES = 64 << 20


class ApiServerProxy:
    """GETs through ``pods/proxy`` and ``services/proxy``."""

    def __init__(self, objects: ApiServerObjects) -> None:
        self._objects = objects

    async def proxy_get(
        self, namespace: str, target: str, path: str, *, headers: Mapping[str, str], timeout_seconds: float
    ) -> HttpAnswer:
        kind, _, rest = target.partition("/")
        name, _, port = rest.rpartition(":")
        bare, _, query = path.partition("?")
        request = ProxyRequest(
            path=unquote(bare),
            params=parse_qsl(query, keep_blank_values=True),
            headers=headers,
            limit_bytes=_ANSWER_LIMIT_BYTES,
            timeout_seconds=timeout_seconds,
        )
        answer = await self._objects.proxy_get(ProxyTarget(ProxyKind(kind), namespace, name, port), request)
        if answer.is_cut:
            raise KubeUnavailable(f"the answer of {target}{bare} is larger than {_ANSWER_LIMIT_BYTES} bytes")
        return HttpAnswer(answer.status, answer.headers, answer.body)
