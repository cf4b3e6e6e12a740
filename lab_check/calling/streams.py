"""A socket as a way to the other side."""

from __future__ import annotations

import socket


class SocketStream:
    """A connected socket, read and written to the last byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, count: int) -> bytes:
        chunks = []
        while count:
            chunk = self._socket.recv(min(count, 1 << 20))
            if not chunk:
                raise EOFError
            chunks.append(chunk)
            count -= len(chunk)
        return b"".join(chunks)
