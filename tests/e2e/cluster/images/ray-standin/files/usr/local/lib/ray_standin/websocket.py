"""As much of a websocket as following a log needs: text messages one way, a close code at the end."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from http.client import HTTPConnection

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE = 0x1, 0x8
NORMAL, BROKEN = 1000, 1006


def accept(connection: socket.socket, key: str) -> None:
    """The server's half of the handshake."""
    digest = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    head = f"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {digest}\r\n"
    connection.sendall(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode())


def send_text(connection: socket.socket, message: str) -> None:
    connection.sendall(_frame(TEXT, message.encode()))


def send_close(connection: socket.socket, code: int) -> None:
    connection.sendall(_frame(CLOSE, struct.pack(">H", code)))


def _frame(kind: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return struct.pack(">BB", 0x80 | kind, size) + payload
    return struct.pack(">BBH", 0x80 | kind, 126, size) + payload if size < 1 << 16 else _long(kind, payload)


def _long(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BBQ", 0x80 | kind, 127, len(payload)) + payload


class Following:
    """The client's half: iterate over messages; afterwards `close_code` says how it ended."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self.close_code = BROKEN
        self._connection = HTTPConnection(host, port)
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        self._connection.request("GET", path, headers=upgrade | {"Sec-WebSocket-Key": key})
        self._response = self._connection.sock.makefile("rb")
        if b" 101 " not in self._response.readline():
            raise ConnectionError(f"{path} is no websocket")
        while self._response.readline().strip():
            pass

    def __iter__(self) -> Iterator[str]:
        while True:
            head = self._response.read(2)
            if len(head) < 2:
                return
            payload = self._response.read(self._size(head[1] & 0x7F))
            if head[0] & 0x0F == CLOSE:
                self.close_code = int.from_bytes(payload[:2], "big")
                return
            yield payload.decode()

    def _size(self, short: int) -> int:
        wide = {126: 2, 127: 8}.get(short)
        return int.from_bytes(self._response.read(wide), "big") if wide else short
