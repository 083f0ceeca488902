"""The real binary over real Ray nodes: one load in parts, a curve, a node that dies.

The binary is named by TOKCLOCK_BINARY.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import NODES

NAMED = os.environ.get("TOKCLOCK_BINARY", "")
BINARY = str(Path(NAMED).resolve()) if NAMED else ""


def knows_workers() -> bool:
    if not BINARY:
        return False
    asked = subprocess.run(
        [BINARY, "worker", "--help"], capture_output=True, check=False
    )
    return asked.returncode == 0


pytestmark = [
    pytest.mark.skipif(not knows_workers(), reason="TOKCLOCK_BINARY names no tokclock"),
    pytest.mark.usefixtures("nothing_left"),
]


@pytest.fixture
def server():
    """The address of a simulated server, which says at its end what it served."""
    process = subprocess.Popen(
        [
            BINARY,
            "sim",
            "--port",
            "0",
            "--ttft",
            "5ms",
            "--itl",
            "2ms",
            "--until-stdin-ends",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process.stderr.readline().split()[0], process
    if process.stdin and not process.stdin.closed:
        process.communicate(timeout=30)


def served(process: subprocess.Popen) -> dict:
    out, _ = process.communicate(timeout=30)
    return json.loads(out)


def summary(directory: Path) -> dict:
    return json.loads((directory / "summary.json").read_text())


def ended(process: subprocess.Popen, seconds: float = 150) -> tuple[int, str]:
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        raise AssertionError(process.communicate(timeout=60)) from None
    return process.returncode, err


def test_one_load_in_parts_is_the_whole_load(cluster, server, tmp_path):
    url, sim = server
    out = tmp_path / "out"
    load = f"{url} --rate 60 --requests 120 --osl 8 --seed 7 --warmup 0s --out {out}"
    code, err = ended(cluster.ray(f"run --hosts {NODES} -- {load}", binary=BINARY))
    # A busy machine may make a result invalid; it is a result nevertheless.
    assert code in (0, 4), err
    found = summary(out)
    assert found["requests"]["ok"] == 120, err
    assert len(found["hosts"]) == NODES
    records = (out / "requests.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["index"] for line in records) == list(range(120))
    assert served(sim)["completed"] >= 120


def test_a_curve_of_two_levels_has_the_same_nodes(cluster, server, tmp_path):
    url, _ = server
    out = tmp_path / "out"
    load = f"{url} --rate 20,40 -d 2s --osl 4 --warmup 1s --out {out}"
    code, err = ended(cluster.ray(f"sweep --hosts {NODES} -- {load}", binary=BINARY))
    assert code == 0, err
    curve = json.loads((out / "curve.json").read_text())
    assert [level["value"] for level in curve["levels"]] == [20, 40]
    for level in curve["levels"]:
        assert len(summary(out / level["dir"])["hosts"]) == NODES
    assert err.count("MB sent to each") == 1


@pytest.mark.thorough
def test_a_node_that_dies_leaves_a_partial_result(cluster, server, tmp_path):
    url, _ = server
    out = tmp_path / "out"
    cluster.add(NODES + 2)
    cluster.wait(NODES + 2)
    lost = f"127.0.1.{NODES + 2}"
    hosts = len(cluster.nodes)
    load = f"{url} --rate 30 -d 20s --osl 4 --warmup 0s --out {out}"
    process = cluster.ray(f"run --hosts {hosts} -- {load}", binary=BINARY)
    begun = time.monotonic() + 90
    while not list(
        cluster.directory.glob("tmp/tokclock-ray-*/results/**/requests.jsonl")
    ):
        assert process.poll() is None and time.monotonic() < begun, ended(process)
        time.sleep(0.1)
    time.sleep(3)
    cluster.kill(lost)
    code, err = ended(process)
    assert code != 0, err
    found = summary(out)
    assert f"{lost}: its actor died" in err
    assert found["requests"]["ok"] > 0
    assert "partial" in json.dumps(found)
