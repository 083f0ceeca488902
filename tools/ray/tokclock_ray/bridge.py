"""Between a relay's Unix socket and the actor on a node: bytes both ways, in order, as soon as they come."""

import asyncio
import signal
from collections.abc import Iterable
from typing import Any

import ray.exceptions

from tokclock_ray.cluster import Node, cause, say

# Questions that wait at the actor, so that the answer to one need not wait for the next question to travel.
ASKED = 4
# Calls under way to the actor; beyond it the coordinator waits.
WRITTEN = 16
PIECE = 65536


class Bridge:
    """One worker's way, from the moment the coordinator starts its relay."""

    def __init__(self, node: Node, env: dict[str, str]) -> None:
        self.node = node
        self.env = env
        self.task: asyncio.Task | None = None
        self.server: asyncio.Server | None = None

    async def serve(self, path: str) -> None:
        """Waits for the relay at `path`."""
        self.server = await asyncio.start_unix_server(self._arrived, path)

    async def close(self) -> None:
        """Nothing is carried any more."""
        if self.server:
            self.server.close()
        if self.task:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def _arrived(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self.task:  # One worker, one coordinator.
            writer.close()
            return
        self.task = asyncio.ensure_future(self._carry(reader, writer))

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Both directions, until the worker ends or cannot be reached."""
        up = None
        try:
            if trouble := await self.node.actor.start.remote(self.env):
                say(f"{self.node.name}: the worker could not start: {trouble}")
                return
            up = asyncio.ensure_future(self._up(reader))
            await self._down(writer)
        except ray.exceptions.RayError as error:
            say(f"{self.node.name}: {cause(error)}")
        except ConnectionError:
            pass  # The coordinator closed its relay before the worker had ended.
        finally:
            if up:
                await _end([up])
            writer.close()

    async def _up(self, reader: asyncio.StreamReader) -> None:
        """What the coordinator says."""
        number = 0
        under_way: set[asyncio.Future] = set()
        try:
            last = False
            while not last:
                data = await reader.read(PIECE)
                last = not data
                under_way.add(
                    asyncio.ensure_future(
                        _done(self.node.actor.write.remote(number, data, last))
                    )
                )
                number += 1
                if len(under_way) >= WRITTEN:
                    done, under_way = await asyncio.wait(
                        under_way, return_when=asyncio.FIRST_COMPLETED
                    )
                    for one in done:
                        one.result()
            await asyncio.gather(*under_way)
        except (ray.exceptions.RayError, ConnectionError):
            pass  # The other direction says it.
        finally:
            await _end(under_way)

    async def _down(self, writer: asyncio.StreamWriter) -> None:
        """What the worker says, put in order, until it ends."""
        asked = {
            asyncio.ensure_future(_done(self.node.actor.read.remote()))
            for _ in range(ASKED)
        }
        early: dict[int, tuple[str, bytes]] = {}
        due = 0
        try:
            while True:
                done, asked = await asyncio.wait(
                    asked, return_when=asyncio.FIRST_COMPLETED
                )
                for one in done:
                    number, kind, data = one.result()
                    early[number] = (kind, data)
                    asked.add(
                        asyncio.ensure_future(_done(self.node.actor.read.remote()))
                    )
                while due in early:
                    kind, data = early.pop(due)
                    due += 1
                    if kind == "end":
                        self._ended(int(data))
                        return
                    if kind == "out":
                        writer.write(data)
                    else:
                        self._remark(data)
                await writer.drain()
        finally:
            await _end(asked)

    def _remark(self, data: bytes) -> None:
        """The worker's standard error, by line."""
        for line in data.decode(errors="replace").splitlines():
            if line.strip():
                say(f"{self.node.name}: {line}")

    def _ended(self, code: int) -> None:
        """How the worker ended, where that is news."""
        if code < 0:
            name = signal.Signals(-code).name
            say(f"{self.node.name}: the worker was killed by {name}")
        elif code:
            say(f"{self.node.name}: the worker ended with exit code {code}")


async def _done(ref: Any) -> Any:
    return await ref


async def _end(futures: Iterable[asyncio.Future]) -> None:
    """Cancels, and takes what comes of it, so that nobody complains of an answer that was not looked at."""
    for one in futures:
        one.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
