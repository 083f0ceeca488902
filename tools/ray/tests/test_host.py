"""The actor's class and the keeper without Ray: the class is plain, so a test can hold it itself."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tokclock_ray import host, keeper

FAKE = Path(__file__).with_name("fake_tokclock.py")
KEEPER = Path(keeper.__file__).read_text(encoding="utf-8")


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def within(seconds: float, what) -> bool:
    """Whether `what` comes true in time."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


async def made(tmp_path: Path, keep: bool = False) -> host.Host:
    """A host with the fake binary, its worker started."""
    one = host.Host(KEEPER, str(tmp_path), keep, 1.0)
    data = FAKE.read_bytes()
    await one.receive("", 0, data[:100])
    await one.receive("", 100, data[100:])
    assert "arrived changed" in await one.seal("", "0" * 64)
    assert await one.seal("", host._digest(str(FAKE))) is None
    assert await one.start({"NAME": "value"}) is None
    return one


async def until_line(one: host.Host) -> dict:
    text = b""
    while not text.endswith(b"\n"):
        _, kind, data = await asyncio.wait_for(one.read(), 20)
        assert kind == "out", (kind, data)
        text += data
    return json.loads(text)


def test_words_go_in_order_however_the_calls_come(tmp_path):
    async def check():
        one = await made(tmp_path)
        words = json.dumps({"do": "env", "name": "NAME"}).encode() + b"\n"
        await one.write(2, words[20:], False)
        await one.write(1, words[10:20], False)
        await one.write(0, words[:10], False)
        assert await until_line(one) == {"value": "value"}
        await one.write(3, b"", True)
        assert (await asyncio.wait_for(one.read(), 20))[1:] == ("end", b"0")
        assert await one.close(10) is None

    asyncio.run(check())
    assert list(tmp_path.iterdir()) == []


def test_much_is_held_back_and_numbered(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "HELD", 200_000)

    async def check():
        one = await made(tmp_path)
        await one.write(0, b'{"do": "large", "size": 2000000}\n', False)
        assert await asyncio.to_thread(within, 20, lambda: one.held > 200_000)
        await asyncio.sleep(0.3)
        assert one.held < 200_000 + 2 * host.PIECE, "the worker waits"
        asked = [asyncio.ensure_future(one.read()) for _ in range(5)]
        text, due = b"", 0
        while not text.endswith(b"\n"):
            number, kind, data = await asyncio.wait_for(asked.pop(0), 20)
            assert (number, kind) == (due, "out") and len(data) <= host.PIECE
            due += 1
            text += data
            asked.append(asyncio.ensure_future(one.read()))
        assert len(json.loads(text)["data"]) > 2_000_000
        for waiting in asked:
            waiting.cancel()
        await one.close(10)

    asyncio.run(check())


def test_a_worker_that_dies_takes_its_children_along_and_is_told(tmp_path):
    async def check():
        one = await made(tmp_path)
        await one.write(0, b'{"do": "hello"}\n', False)
        child = (await until_line(one))["child"]
        await one.write(1, b'{"do": "die"}\n', False)
        assert (await asyncio.wait_for(one.read(), 20))[1:] == ("end", b"-9")
        assert within(5, lambda: gone(child))
        assert Path(one.directory).is_dir(), (
            "what the worker left can be looked at until the end"
        )
        await one.write(2, b"more", False)
        await one.close(10)

    asyncio.run(check())
    assert list(tmp_path.iterdir()) == []


def test_a_binary_that_does_not_start_is_said(tmp_path):
    async def check():
        one = host.Host(KEEPER, str(tmp_path), False, 1.0)
        await one.receive("", 0, b"no program")
        await one.seal("", host._digest(one.binary))
        assert "Exec format error" in await one.start({})
        await one.close(10)

    asyncio.run(check())
    assert list(tmp_path.iterdir()) == []


def test_a_kept_directory_stays(tmp_path):
    async def check():
        one = await made(tmp_path, keep=True)
        assert await one.close(10) == one.directory

    asyncio.run(check())
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in kept.iterdir()) == [
        "bin",
        "files",
        "keeper.py",
        "results",
    ]


ACTOR = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_host import made, until_line
async def live():
    one = await made(Path(sys.argv[1]))
    await one.write(0, b'{"do": "hello"}\\n', False)
    print(json.dumps(await until_line(one)), flush=True)
    await asyncio.sleep(60)
asyncio.run(live())
"""


def test_an_actor_that_is_killed_leaves_nothing(tmp_path):
    actor = subprocess.Popen(
        [sys.executable, "-c", ACTOR, str(tmp_path), str(FAKE.parent)],
        stdout=subprocess.PIPE,
    )
    said = json.loads(actor.stdout.readline())
    (directory,) = tmp_path.iterdir()
    assert not gone(said["pid"]) and not gone(said["child"])
    os.kill(actor.pid, signal.SIGKILL)
    actor.wait()
    assert within(10, lambda: gone(said["pid"]) and gone(said["child"]))
    assert within(10, lambda: not directory.exists())
