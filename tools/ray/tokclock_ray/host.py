"""The actor: one on each node. Keeps a private directory there, and carries bytes between the driver and the worker.

Sent to the nodes by value, so nothing of this package needs to be installed on them: it uses the standard library only.
"""

import asyncio
import collections
import hashlib
import json
import os
import platform
import select
import socket
import stat
import subprocess
import sys
import tempfile
import time

# Replies below 100 KiB travel inside Ray's messages; larger ones would go through the object store.
PIECE = 90 * 1024
# The worker waits when the driver is this far behind.
HELD = 4 * 1024 * 1024
# What a worker said last must come within this time of its end.
PATIENCE = 2.0


class Host:
    """One node's part of a load: files in, `doctor`, one worker, its streams."""

    def __init__(self, keeper: str, where: str | None, keep: bool, grace: float):
        self.directory = tempfile.mkdtemp(prefix="tokclock-ray-", dir=where)
        self.files = os.path.join(self.directory, "files")
        os.mkdir(self.files, 0o700)
        script = os.path.join(self.directory, "keeper.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(keeper)
        self.binary = os.path.join(self.directory, "bin", "tokclock")
        self._start_keeper(script, keep, grace)
        # What the driver asked for and what there is to give, in the order of both.
        self.askers: collections.deque[asyncio.Future] = collections.deque()
        self.ready: collections.deque[tuple[str, bytes]] = collections.deque()
        self.held = 0
        self.given = 0
        self.open: dict[int, str] = {}
        self.paused: set[int] = set()
        self.status_text = b""
        self.code: int | None = None
        self.ended = False
        self.started: asyncio.Future | None = None
        # Words for the worker that came before their turn.
        self.early: dict[int, tuple[bytes, bool]] = {}
        self.taken = 0
        self.writing = asyncio.Lock()

    def _start_keeper(self, script: str, keep: bool, grace: float) -> None:
        """The keeper is there before anything else is, so that nothing is left without one."""
        life_out, life_in = os.pipe()
        status_out, status_in = os.pipe()
        worker_in, self.to_worker = os.pipe()
        self.from_worker, worker_out = os.pipe()
        self.remarks, worker_err = os.pipe()
        started = subprocess.Popen(
            [sys.executable, "-I", "-S", script, str(life_out), str(status_in)]
            + [self.directory, str(int(keep)), str(grace)],
            stdin=worker_in,
            stdout=worker_out,
            stderr=worker_err,
            pass_fds=(life_out, status_in),
            start_new_session=True,
        )
        started.wait()  # It goes on as a process of its own.
        for end in (life_out, status_in, worker_in, worker_out, worker_err):
            os.close(end)
        self.lifeline, self.status = life_in, status_out

    async def facts(self) -> dict:
        """What the driver must know of this node before it sends a binary."""
        return {
            "hostname": socket.gethostname(),
            "machine": platform.machine(),
            "directory": self.directory,
        }

    async def receive(self, name: str, offset: int, piece: bytes) -> None:
        """A piece of the binary (no name) or of a file."""
        await asyncio.to_thread(_store, self._path(name), offset, piece)

    async def seal(self, name: str, digest: str) -> str | None:
        """Compares what came with what was sent: what is wrong, or nothing."""
        found = await asyncio.to_thread(_digest, self._path(name))
        if found != digest:
            return f"{name or 'the binary'} arrived changed (sha256 {found})"
        if not name:
            os.chmod(self.binary, stat.S_IRWXU)
        return None

    def _path(self, name: str) -> str:
        return os.path.join(self.files, name) if name else self.binary

    async def doctor(self, options: list[str]) -> tuple[int, str, str]:
        """What `tokclock doctor --json` says here: exit code, standard output, standard error."""
        try:
            process = await asyncio.to_thread(
                subprocess.run,
                [self.binary, "doctor", "--json", *options],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=120,
                cwd=self.files,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, "", str(error)
        return process.returncode, process.stdout, process.stderr

    async def start(self, env: dict[str, str]) -> str | None:
        """Starts the worker: what is wrong, or nothing. Its results lie in this actor's directory."""
        loop = asyncio.get_running_loop()
        self.started = loop.create_future()
        for end, kind in (
            (self.status, "status"),
            (self.from_worker, "out"),
            (self.remarks, "err"),
        ):
            os.set_blocking(end, False)
            self.open[end] = kind
            loop.add_reader(end, self._arrived, end)
        results = os.path.join(self.directory, "results")
        order = {"argv": [self.binary, "worker", "--dir", results], "env": env}
        os.mkdir(results, 0o700)
        data = json.dumps(order).encode() + b"\n"
        await asyncio.to_thread(_write_all, self.lifeline, data)
        return await self.started

    def _arrived(self, end: int) -> None:
        """Something to read: hands it to whoever waits, or keeps it."""
        try:
            data = os.read(end, PIECE)
        except BlockingIOError:
            return
        kind = self.open[end]
        if not data:
            asyncio.get_running_loop().remove_reader(end)
            del self.open[end]
        if kind == "status":
            self._status(data)
        elif data:
            self._give(kind, data)
        self._end_if(not {"out", "err"} & set(self.open.values()))
        if self.held > HELD and kind == "out" and end in self.open:
            asyncio.get_running_loop().remove_reader(end)
            self.paused.add(end)

    def _status(self, data: bytes) -> None:
        """The keeper's words: that the worker runs, that it could not start, how it ended."""
        self.status_text += data
        *lines, self.status_text = self.status_text.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "code" in said:
                self.code = said["code"]
                # Whoever else holds the worker's streams is not waited for.
                asyncio.get_running_loop().call_later(PATIENCE, self._end_if, True)
            elif self.started and not self.started.done():
                self.started.set_result(said.get("failed"))
        if not data:
            if self.started and not self.started.done():
                self.started.set_result("its keeper ended")
            if self.code is None:
                self.code = 1

    def _end_if(self, closed: bool) -> None:
        """Tells the worker's end, once, when it is known and nothing more comes."""
        if closed and self.code is not None and not self.ended:
            self.ended = True
            self._give("end", str(self.code).encode())

    def _give(self, kind: str, data: bytes) -> None:
        self.ready.append((kind, data))
        self.held += len(data)
        while self.askers and self.ready:
            asker = self.askers.popleft()
            if not asker.done():
                asker.set_result(self._next())

    def _next(self) -> tuple[int, str, bytes]:
        """The oldest kept piece, with those of its kind that follow and fit, and its number."""
        kind, data = self.ready.popleft()
        while kind != "end" and self.ready and self.ready[0][0] == kind:
            if len(data) + len(self.ready[0][1]) > PIECE:
                break
            data += self.ready.popleft()[1]
        self.held -= len(data)
        if self.paused and self.held < HELD // 2:
            for end in self.paused:
                asyncio.get_running_loop().add_reader(end, self._arrived, end)
            self.paused.clear()
        number, self.given = self.given, self.given + 1
        return number, kind, data

    async def read(self) -> tuple[int, str, bytes]:
        """The next piece of what the worker says, as soon as there is one: number, stream, bytes."""
        if self.ready:
            return self._next()
        asker = asyncio.get_running_loop().create_future()
        self.askers.append(asker)
        return await asker

    async def write(self, number: int, data: bytes, last: bool) -> None:
        """Words for the worker. Calls may overtake each other, so each has a number."""
        self.early[number] = (data, last)
        async with self.writing:
            while self.taken in self.early:
                data, last = self.early.pop(self.taken)
                self.taken += 1
                await self._pass_on(data)
                if last:
                    self._close_input()

    async def _pass_on(self, data: bytes) -> None:
        """Into the pipe at once where it has room, else by a thread that may wait."""
        if self.to_worker < 0 or not data:
            return
        try:
            if len(data) <= 4096 and _has_room(self.to_worker):
                os.write(self.to_worker, data)
            else:
                await asyncio.to_thread(_write_all, self.to_worker, data)
        except OSError:
            pass  # The worker is gone; its end is told by its streams.

    def _close_input(self) -> None:
        if self.to_worker >= 0:
            os.close(self.to_worker)
            self.to_worker = -1

    async def close(self, patience: float) -> str | None:
        """Ends the worker and what guards it: the directory if it stays, or nothing."""
        self._close_input()
        loop = asyncio.get_running_loop()
        for end in self.open:
            loop.remove_reader(end)
        os.close(self.lifeline)
        await asyncio.to_thread(_until_closed, self.status, patience)
        return self.directory if os.path.isdir(self.directory) else None


def _store(path: str, offset: int, piece: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if offset == 0 else 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.seek(offset)
        file.write(piece)


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _has_room(pipe: int) -> bool:
    """Whether a write of 4096 bytes would not wait."""

    return bool(select.select([], [pipe], [], 0)[1])


def _write_all(to: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(to, rest) :]


def _until_closed(pipe: int, patience: float) -> None:
    """Waits until the other side of a pipe is gone."""

    end = time.monotonic() + patience
    while (left := end - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            try:
                if not os.read(pipe, 4096):
                    return
            except BlockingIOError:
                pass
