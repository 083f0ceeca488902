"""On real Ray nodes, with the stand-in for the binary: what is carried, what is left, what is said."""

import json
import os
import pty
import signal
import stat
import subprocess
import time

import pytest
from conftest import NODES, processes

pytestmark = pytest.mark.usefixtures("nothing_left")
thorough = pytest.mark.thorough


def done(process: subprocess.Popen, code: int = 0) -> tuple[list[dict], str]:
    """What it printed, by line, once it has ended as expected."""
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        raise AssertionError(process.communicate(timeout=30)) from None
    assert process.returncode == code, err
    return [json.loads(line) for line in out.splitlines()], err


def lines(process: subprocess.Popen, count: int) -> list[dict]:
    """Its first lines, while it goes on."""
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def gone(pid: int) -> bool:
    return pid not in processes()


def all_gone(said: list[dict]) -> bool:
    end = time.monotonic() + 15
    pids = [one[name] for one in said for name in ("pid", "child")]
    while not all(gone(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_one_worker_on_each_node_and_the_coordinators_exit_code(cluster):
    said, err = done(cluster.ray(f"run --hosts {NODES} -- hello --exit 5"), 5)
    assert len({one["cwd"] for one in said}) == NODES
    assert f"{NODES} hosts: " in err and "doctor warns of load" in err
    assert all(f"127.0.1.{number}" in err for number in range(1, NODES + 1))
    assert "Traceback" not in err
    assert all_gone(said)


@thorough
def test_a_round_trip_is_milliseconds(cluster):
    said, _ = done(cluster.ray(f"run -q --hosts {NODES} -- clock:100"))
    assert len(said) == NODES
    for one in said:
        print(one)
        assert 0 < one["least"] <= one["median"]
        # One machine, one clock: what an exchange cannot misjudge by more than its half.
        assert abs(one["off"]) <= one["least"] / 2


@thorough
def test_much_data_arrives_whole_both_ways(cluster):
    said, _ = done(cluster.ray(f"run -q --hosts {NODES} -- large:3000000"))
    assert len(said) == NODES
    for one in said:
        print(one)
        assert one["right"] and one["back"]


def test_a_secret_and_a_file_reach_every_worker_and_no_command_line(cluster, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/set.jsonl").write_text("a line\n")
    files = cluster.ray(
        f"run -q --hosts {NODES} --file data/set.jsonl -- file:data/set.jsonl",
        cwd=tmp_path,
    )
    private = stat.S_IRUSR | stat.S_IWUSR
    assert done(files)[0] == [{"text": "a line\n", "mode": private}] * NODES
    env = {"SECRET_KEY": "k3y-that-nobody-sees"}
    process = cluster.ray(
        f"run --hosts {NODES} --env SECRET_KEY -- env:SECRET_KEY", env=env
    )
    seen = []
    while process.poll() is None:
        seen += [line for line in processes().values() if env["SECRET_KEY"] in line]
        time.sleep(0.05)
    said, err = done(process)
    assert said == [{"value": env["SECRET_KEY"]}] * NODES
    assert seen == [] and env["SECRET_KEY"] not in err
    logs = (cluster.directory / "ray").rglob("*")
    for log in logs:
        if log.is_file():
            assert env["SECRET_KEY"].encode() not in log.read_bytes(), log


@thorough
def test_remarks_and_a_death_are_said_by_node(cluster):
    _, err = done(cluster.ray("run -q --hosts 1 -- remark"))
    assert "tokclock-ray: 127.0.1." in err and ": a remark" in err
    said, err = done(cluster.ray("run -q --hosts 1 -- die --exit 1"), 1)
    assert not any(said) and "the worker was killed by SIGKILL" in err


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=thorough)]
)
def test_a_signal_is_the_coordinators_and_nothing_is_left(cluster, number):
    process = cluster.ray(f"run -q --hosts {NODES} -- hold --exit 130")
    said = lines(process, NODES)
    assert not any(gone(one["pid"]) for one in said)
    process.send_signal(number)
    last, err = done(process, 130)
    assert last == [{"stopped": [number.name], "alive": NODES}]
    assert "Traceback" not in err
    assert all_gone(said)


@thorough
def test_a_terminal_stays_one_for_the_coordinator(cluster):
    ours, theirs = pty.openpty()
    process = cluster.ray("run -q --hosts 1 -- tty", stderr=theirs)
    out, _ = process.communicate(timeout=120)
    os.close(ours)
    os.close(theirs)
    assert json.loads(out) == {"tty": True}


def test_a_killed_driver_leaves_nothing(cluster):
    process = cluster.ray(f"run -q --hosts {NODES} -- hold")
    said = lines(process, NODES)
    sockets = {
        one for one in cluster.directory.glob("tmp/tokclock-ray-*/127.0.1.1.sock")
    }
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert all_gone(said)
    # Its own directory of sockets is all that a killed driver cannot take along.
    for one in sockets:
        subprocess.run(["rm", "-rf", str(one.parent)], check=True)


@thorough
def test_an_interrupt_before_the_load_gives_everything_back(cluster):
    process = cluster.ray("run --hosts 9 --wait 60s -- hello")
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    said, err = done(process, 130)
    assert said == [] and "interrupted" in err


@thorough
def test_too_few_nodes_are_one_line(cluster):
    _, err = done(cluster.ray("run --hosts 9 --wait 1s -- hello"), 1)
    assert err.count("\n") == 1
    assert f"9 hosts wanted, {NODES} of {NODES} live nodes have 1 CPU after 1 s" in err
    _, err = done(cluster.ray("run --hosts 2 --resource node1=1 --wait 1s -- hello"), 1)
    assert f"1 of {NODES} live nodes have 1 CPU and 1 of node1" in err


@thorough
def test_doctor_is_a_row_for_each_node(cluster):
    process = cluster.ray("doctor")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    rows = out.splitlines()
    assert rows[0].split() == ["host", "version", "CPUs", "ok", "notes", "warnings"]
    assert sorted(row.split()[0] for row in rows[1 : NODES + 1]) == [
        f"127.0.1.{number}" for number in range(1, NODES + 1)
    ]
    process = cluster.ray("doctor --hosts 1 --resource node1=1 --json")
    out, err = process.communicate(timeout=120)
    assert list(json.loads(out)) == ["127.0.1.1"], err


@thorough
def test_a_killed_node_is_named_and_the_others_go_on(cluster):
    cluster.add(NODES + 1)
    cluster.wait(NODES + 1)
    process = cluster.ray(f"run -q --hosts {NODES + 1} -- hold --exit 130")
    said = lines(process, NODES + 1)
    lost = f"127.0.1.{NODES + 1}"
    cluster.kill(lost)
    killed = time.monotonic()
    for line in process.stderr:
        if line.startswith(f"{NODES} of {NODES + 1} alive"):
            break
    print(f"noticed after {time.monotonic() - killed:.1f} s")
    process.send_signal(signal.SIGINT)
    last, _ = done(process, 130)
    assert last == [{"stopped": ["SIGINT"], "alive": NODES}]
    assert all_gone(said)
