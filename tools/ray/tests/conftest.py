"""A cluster of real Ray nodes on this machine, each on a loopback address of its own."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

FAKE = str(Path(__file__).with_name("fake_tokclock.py"))
# Three show more than two; two are enough where time is short.
NODES = int(os.environ.get("TOKCLOCK_RAY_NODES", "3"))
# Where Ray itself may be at fault, nodes that do not start are no failure of ours.
MAY_SKIP = "TOKCLOCK_RAY_MAY_SKIP" in os.environ


def processes() -> dict[int, str]:
    """All that run, with their command lines."""
    found = {}
    for one in Path("/proc").iterdir():
        if not one.name.isdecimal():
            continue
        try:
            line = (
                (one / "cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
            )
            if (one / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found[int(one.name)] = line.strip()
        except OSError:
            continue
    return found


def below(parent: int) -> set[int]:
    """A process and all that it started, and those that these started."""
    children: dict[int, list[int]] = {}
    for one in Path("/proc").iterdir():
        if one.name.isdecimal():
            try:
                stat = (one / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(stat[1]), []).append(int(one.name))
    found, more = set(), [parent]
    while more:
        pid = more.pop()
        found.add(pid)
        more += children.get(pid, [])
    return found


def free_port(address: str) -> int:
    with socket.socket() as one:
        one.bind((address, 0))
        return one.getsockname()[1]


@dataclass
class Cluster:
    """Nodes by address, each a process that holds its node's other processes."""

    directory: Path
    env: dict[str, str]
    address: str = ""
    nodes: dict[str, subprocess.Popen] = field(default_factory=dict)

    def add(self, number: int) -> None:
        """Starts the node on 127.0.1.`number`; the first is the head."""
        here = f"127.0.1.{number}"
        argv = [str(Path(sys.executable).with_name("ray")), "start", "--block"]
        argv += [
            "--num-cpus=1",
            "--object-store-memory=83886080",
            "--disable-usage-stats",
        ]
        argv += [f"--node-ip-address={here}", f'--resources={{"node{number}": 1}}']
        if self.address:
            argv.append(f"--address={self.address}")
        else:
            port = free_port(here)
            self.address = f"{here}:{port}"
            argv += ["--head", f"--port={port}", "--include-dashboard=false"]
            if find_spec("grpc"):  # Ray without extras has no server for clients.
                argv += [f"--ray-client-server-port={free_port(here)}"]
            argv += [f"--temp-dir={self.directory}/ray"]
        with open(self.directory / f"{here}.log", "wb") as log:
            self.nodes[here] = subprocess.Popen(
                argv, env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self, number: int) -> None:
        """Until the node says that it runs."""
        here = f"127.0.1.{number}"
        log, end = self.directory / f"{here}.log", time.monotonic() + 120
        while "Ray runtime started" not in log.read_text(errors="replace"):
            assert self.nodes[here].poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < end, log.read_text(errors="replace")
            time.sleep(0.1)

    def kill(self, address: str) -> None:
        """The sudden end of a node: Ray's processes and whatever runs under them, all at once."""
        node = self.nodes.pop(address)
        for pid in below(node.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        node.wait()

    def ray(self, *argv: str, binary: str = FAKE, **more) -> subprocess.Popen:
        """tokclock-ray with this cluster, started."""
        ours, _, rest = " ".join(argv).partition(" -- ")
        command, *options = ours.split()
        line = [
            sys.executable,
            "-m",
            "tokclock_ray",
            command,
            "--address",
            self.address,
        ]
        line += [*options, "--binary", binary] + (["--", *rest.split()] if rest else [])
        env = {**self.env, **more.pop("env", {})}
        more.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(
            line,
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            **more,
        )


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A head and other nodes; nothing else on this machine is touched."""
    # Short, since Ray makes Unix sockets below it.
    directory = Path("/tmp") / f"tcr-{os.getpid()}"
    directory.mkdir(mode=0o700)
    token = directory / "token"
    token.write_text(secrets.token_hex(32))
    env = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith("RAY_")
        },
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_raylet_start_wait_time_s": "120",
        "TMPDIR": str(directory / "tmp"),
    }
    (directory / "tmp").mkdir()
    made = Cluster(directory, env)
    try:
        # One after the other: nodes that start together may choose the same ports.
        try:
            for number in range(1, NODES + 1):
                made.add(number)
                made.wait(number)
        except AssertionError as why:
            if MAY_SKIP:
                pytest.skip(f"Ray's nodes do not start here: {why}")
            raise
        yield made
    finally:
        for node in made.nodes.values():
            node.terminate()
        for address in list(made.nodes):
            try:
                made.nodes[address].wait(30)
            except subprocess.TimeoutExpired:
                made.kill(address)
        subprocess.run(["rm", "-rf", str(directory)], check=True)


@pytest.fixture
def nothing_left(cluster):
    """After a test neither a process nor a directory of tokclock-ray is there that was not before."""
    before = set(cluster.directory.joinpath("tmp").glob("tokclock-ray-*"))
    yield
    end = time.monotonic() + 15
    while True:
        directories = (
            set(cluster.directory.joinpath("tmp").glob("tokclock-ray-*")) - before
        )
        mark = str(cluster.directory / "tmp" / "tokclock-ray-")
        left = [line for line in processes().values() if mark in line]
        if not left and not directories:
            return
        assert time.monotonic() < end, (left, directories)
        time.sleep(0.1)
