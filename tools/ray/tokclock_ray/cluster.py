"""Nodes: finding them, one actor on each, what is sent to all of them, and giving everything back."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ray
import ray.exceptions
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tokclock_ray import host
from tokclock_ray.failure import USAGE, Failure
from tokclock_ray.parcel import Item

# How long a worker whose actor or driver is gone may take to stop by itself.
GRACE = 5.0
# Pieces under way to the nodes at once: memory stays small whatever the size of a data set.
UNDER_WAY = 3


@dataclass(frozen=True)
class Wish:
    """What a person asked for, of the cluster."""

    address: str
    hosts: int | None
    cpus: float
    resources: dict[str, float]
    wait: float
    directory: str | None
    keep: bool


@dataclass
class Node:
    """One node with its actor."""

    name: str
    actor: Any


def connect(address: str) -> None:
    """Joins the cluster as a driver. It never starts one."""
    if address.startswith("ray://"):
        raise Failure(
            f"--address {address}: Ray Client is too slow for clocks: start this on a node of the "
            "cluster (ray job submit does), with --address auto",
            USAGE,
        )
    with quiet() as noise:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # noqa: BLE001 (Ray raises many kinds here, plain RuntimeError too)
            trouble = error
        else:
            return
    said = _last_line(str(trouble)) or type(trouble).__name__
    if "InvalidAuthToken" in noise():
        said = "it asks for another token: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    raise Failure(f"no Ray cluster at {address}: {said}")


@contextlib.contextmanager
def quiet() -> Iterator[Callable[[], str]]:
    """Takes what Ray's libraries write to standard error meanwhile, a line for each try; lends it to whoever asks."""
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as noise:
        os.dup2(noise.fileno(), 2)

        def so_far() -> str:
            noise.seek(0)
            return noise.read().decode(errors="replace")

        text = ""
        try:
            yield lambda: text
        finally:
            os.dup2(before, 2)
            os.close(before)
            text = so_far()


def fitting(wish: Wish) -> list[dict]:
    """The live nodes that have what one host needs, in use or not."""
    needs = {"CPU": wish.cpus, **wish.resources}
    return [
        node
        for node in ray.nodes()
        if node["Alive"]
        and all(node["Resources"].get(name, 0) >= most for name, most in needs.items())
    ]


def too_few(wish: Wish, hosts: int, fit: int, alive: int) -> str:
    """The one line when not all hosts can be had."""
    needs = [f"{wish.cpus:g} CPU{'' if wish.cpus == 1 else 's'}"]
    needs += [f"{most:g} of {name}" for name, most in wish.resources.items()]
    needed = " and ".join(needs)
    if fit < hosts:
        had = f"{fit} of {alive} live nodes have {needed}"
    else:
        had = f"{fit} nodes have {needed}, but not {hosts} of them free"
    return f"{hosts} hosts wanted, {had} after {wish.wait:g} s (--hosts, --cpus-per-host, --wait)"


async def place(wish: Wish) -> tuple[PlacementGroup, int]:
    """Takes one place on each of so many nodes, all or none."""
    hosts = wish.hosts if wish.hosts is not None else max(1, len(fitting(wish)))
    bundle = {**({"CPU": wish.cpus} if wish.cpus else {}), **wish.resources}
    group = placement_group(
        [dict(bundle) for _ in range(hosts)], strategy="STRICT_SPREAD"
    )
    end = asyncio.get_running_loop().time() + wish.wait
    try:
        while True:
            left = end - asyncio.get_running_loop().time()
            if await asyncio.to_thread(group.wait, min(0.5, max(0.05, left))):
                return group, hosts
            if left <= 0:
                alive = sum(node["Alive"] for node in ray.nodes())
                raise Failure(too_few(wish, hosts, len(fitting(wish)), alive))
    except BaseException:
        remove_placement_group(group)
        raise


def names(group: PlacementGroup, hosts: int) -> list[str]:
    """The address of each place's node; places on one address are told apart by number."""
    where = ray.util.placement_group_table(group)["bundles_to_node_id"]
    address = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    found = [address.get(where.get(place), f"node {place}") for place in range(hosts)]
    return [
        name if found.count(name) == 1 else f"{name}#{place}"
        for place, name in enumerate(found)
    ]


class Fleet:
    """The actors of one command, from their start to their end."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.group: PlacementGroup | None = None
        self.nodes: list[Node] = []

    async def start(self) -> None:
        """One actor on each node, or none."""
        self.group, hosts = await place(self.wish)
        # By value: what a node has installed does not matter.
        ray.cloudpickle.register_pickle_by_value(host)
        keeper = Path(__file__).with_name("keeper.py").read_text(encoding="utf-8")
        remote = ray.remote(host.Host)
        for at, name in enumerate(names(self.group, hosts)):
            strategy = PlacementGroupSchedulingStrategy(
                placement_group=self.group, placement_group_bundle_index=at
            )
            actor = remote.options(
                num_cpus=self.wish.cpus,
                resources=self.wish.resources or None,
                scheduling_strategy=strategy,
                max_restarts=0,
                max_task_retries=0,
            ).remote(keeper, self.wish.directory, self.wish.keep, GRACE)
            self.nodes.append(Node(name, actor))

    async def ask(self, what: Callable[[Any], Any], patience: float) -> list[Any]:
        """The same question to all; the first node that does not answer ends it all, by name."""

        async def one(node: Node) -> Any:
            try:
                return await asyncio.wait_for(_result(what(node.actor)), patience)
            except asyncio.TimeoutError:
                raise Failure(f"{node.name}: no answer for {patience:g} s") from None
            except ray.exceptions.RayError as error:
                raise Failure(f"{node.name}: {cause(error)}") from error

        return await asyncio.gather(*(one(node) for node in self.nodes))

    async def check_machines(self, machine: str | None) -> None:
        """One binary serves all nodes only if all have the kind of CPU that it is for."""
        facts = await self.ask(lambda actor: actor.facts.remote(), self.wish.wait)
        for node, fact in zip(self.nodes, facts):
            if machine not in (None, fact["machine"]):
                raise Failure(
                    f"{node.name}: a {fact['machine']} node, and the binary is for {machine}"
                )

    async def send(self, items: list[Item]) -> None:
        """Every file to every node, compared at the end."""
        for item in items:
            await self._send_pieces(item)
            troubles = await self.ask(
                partial(_seal, name=item.name, digest=item.digest), 120
            )
            for node, trouble in zip(self.nodes, troubles):
                if trouble:
                    raise Failure(f"{node.name}: {trouble}")

    async def _send_pieces(self, item: Item) -> None:
        """One file by the object store, a few pieces at a time."""
        under_way: list[asyncio.Future] = []
        for piece in item.pieces():
            # One copy in the store for all nodes; it goes when the last has it.
            data = ray.put(piece.data)
            what = partial(_receive, name=item.name, offset=piece.offset, data=data)
            under_way.append(asyncio.ensure_future(self.ask(what, 120)))
            # The first piece makes the file, so it is there before the others come.
            if piece.offset == 0 or len(under_way) > UNDER_WAY:
                await under_way.pop(0)
        await asyncio.gather(*under_way)

    async def close(self) -> list[str]:
        """Ends the workers, then the actors, then gives the places back: the directories that stay."""

        async def one(node: Node) -> str | None:
            patience = GRACE + 5
            try:
                kept = await asyncio.wait_for(
                    _result(node.actor.close.remote(patience)), patience + 5
                )
            except (asyncio.TimeoutError, ray.exceptions.RayError):
                kept = None  # Its keeper ends the worker when it sees the actor's end.
            ray.kill(node.actor)
            return f"{node.name}:{kept}" if kept else None

        kept = await asyncio.gather(*(one(node) for node in self.nodes))
        if self.group is not None:
            remove_placement_group(self.group)
        return [one for one in kept if one]


def _receive(actor: Any, name: str, offset: int, data: Any) -> Any:
    return actor.receive.remote(name, offset, data)


def _seal(actor: Any, name: str, digest: str) -> Any:
    return actor.seal.remote(name, digest)


async def _result(ref: Any) -> Any:
    return await ref


def cause(error: ray.exceptions.RayError) -> str:
    """A line for what Ray says in a page."""
    if isinstance(error, ray.exceptions.RayActorError):
        if "creation" in str(error) and (inner := _last_line(str(error))):
            return f"its actor could not start: {inner}"
        return "its actor died (the node, or Ray's process on it, is gone)"
    if isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None:
        return str(error.cause)
    return _last_line(str(error)) or type(error).__name__


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def say(line: str) -> None:
    """A remark on standard error; where the coordinator's progress stands on the line, it gives way."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{clear}tokclock-ray: {line}", file=sys.stderr, flush=True)
