"""One command from the first node to the last: place, send, look, start the coordinator, wait, give back."""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ray

from tokclock_ray import findings, parcel
from tokclock_ray.bridge import Bridge
from tokclock_ray.cluster import Fleet, Wish, connect, say
from tokclock_ray.failure import COULD_NOT, INTERRUPTED, Failure

# What a Unix socket's path may have, less the name of the socket.
LONGEST_SOCKET_DIRECTORY = 90


@dataclass(frozen=True)
class Task:
    """What a person asked for."""

    command: str
    wish: Wish
    binary: Path
    files: list[str]
    env: dict[str, str]
    arguments: list[str]
    json: bool
    quiet: bool


class Signals:
    """Ctrl-C, SIGTERM and a closed terminal: they end the preparations, and later go to the coordinator."""

    def __init__(self, task: asyncio.Task) -> None:
        self.task = task
        self.child: asyncio.subprocess.Process | None = None
        self.closing = False
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._came, number)

    def _came(self, number: int) -> None:
        if self.closing:
            return  # What is being given back is given back to the end.
        if self.child is None:
            self.task.cancel()
            return
        if self.child.returncode is None:
            # To the binary a closed terminal is an end like any other.
            sent = signal.SIGTERM if number == signal.SIGHUP else number
            self.child.send_signal(sent)


def socket_directory() -> str:
    """A directory that only this user can look into, with a name short enough for sockets."""
    made = tempfile.mkdtemp(prefix="tokclock-ray-")
    if len(made) <= LONGEST_SOCKET_DIRECTORY:
        return made
    os.rmdir(made)
    return tempfile.mkdtemp(prefix="tokclock-ray-", dir="/tmp")


def relay_command(path: str) -> str:
    """What the coordinator runs as a worker, in the words of a shell."""
    relay = str(Path(__file__).with_name("relay.py"))
    return shlex.join([sys.executable, "-I", "-S", relay, path])


async def coordinate(task: Task, fleet: Fleet, signals: Signals) -> int:
    """Runs the coordinator with a relay to each node: its exit code."""
    sockets = socket_directory()
    bridges: list[Bridge] = []
    try:
        argv = [str(task.binary), task.command, *task.arguments]
        for node in fleet.nodes:
            # The coordinator calls a worker by its command, so the node stands in it.
            path = os.path.join(sockets, f"{node.name}.sock")
            bridges.append(Bridge(node, task.env))
            await bridges[-1].serve(path)
            argv += ["--worker", relay_command(path)]
        # A session of its own: a Ctrl-C reaches it once, by us.
        try:
            child = await asyncio.create_subprocess_exec(*argv, start_new_session=True)
        except OSError as error:
            raise Failure(f"{task.binary} cannot be run here: {error}") from error
        signals.child = child
        code = await child.wait()
    finally:
        for bridge in bridges:
            await bridge.close()
        shutil.rmtree(sockets, ignore_errors=True)
    if code < 0:
        say(f"the coordinator was killed by {signal.Signals(-code).name}")
        return COULD_NOT
    return code


async def look(fleet: Fleet, options: list[str]) -> list[findings.Findings]:
    """`tokclock doctor` on every node."""
    answers = await fleet.ask(lambda actor: actor.doctor.remote(options), 150)
    return [
        findings.read(node.name, *answer) for node, answer in zip(fleet.nodes, answers)
    ]


def show(found: list[findings.Findings], as_json: bool) -> int:
    """The findings of all nodes: the exit code, which a node that could not look makes 1."""
    if as_json:
        reports = {one.host: one.report or {"error": one.trouble} for one in found}
        text = json.dumps(reports, indent=2)
    else:
        text = findings.table(found)
    print(text, file=sys.__stdout__)
    return COULD_NOT if any(one.trouble for one in found) else 0


async def prepared(task: Task, fleet: Fleet) -> list[findings.Findings]:
    """Nodes with everything on them, and what doctor found there."""
    items = await asyncio.to_thread(parcel.pack, task.binary, task.files)
    await fleet.start()
    await fleet.check_machines(parcel.machine(task.binary))
    await fleet.send(items)
    if not task.quiet:
        size = sum(item.path.stat().st_size for item in items) / 1e6
        at = ", ".join(node.name for node in fleet.nodes)
        say(f"{len(fleet.nodes)} hosts: {at}; {size:.1f} MB sent to each")
    options = task.arguments if task.command == "doctor" else []
    return await look(fleet, options)


async def perform(task: Task) -> int:
    """The command, and everything given back whatever happens."""
    this = asyncio.current_task()
    assert this is not None
    signals = Signals(this)
    fleet = Fleet(task.wish)
    try:
        found = await prepared(task, fleet)
        if task.command == "doctor":
            return show(found, task.json)
        if not task.quiet:
            for line in findings.warnings(found):
                say(line)
        return await coordinate(task, fleet, signals)
    except asyncio.CancelledError:
        say("interrupted before the load began")
        return INTERRUPTED
    finally:
        signals.closing = True
        for kept in await fleet.close():
            say(f"kept {kept}")


def run(task: Task) -> int:
    """Joins the cluster, performs the task, leaves."""
    # Ray prints news of the cluster to standard output, which is for results. What matters of it is said by us.
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (to the end of the process)
    connect(task.wish.address)
    try:
        return asyncio.run(perform(task))
    finally:
        with contextlib.suppress(Exception):
            ray.shutdown()
