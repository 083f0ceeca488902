"""The parts that need no Ray: options, files, findings, the relay."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tokclock_ray import cli, findings, parcel, relay
from tokclock_ray.failure import USAGE, Failure

HERE = Path(__file__).parent
FAKE = str(HERE / "fake_tokclock.py")


def asked(*argv: str):
    return cli.task([*argv, "--binary", FAKE, "--", "http://127.0.0.1:8000", "-c", "4"])


def refused(capsys, *argv: str) -> str:
    """What is said of a wrong command line, which is one line."""
    assert cli.main(list(argv)) == USAGE
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def test_what_follows_two_dashes_is_for_tokclock():
    task = asked("run", "--hosts", "3", "--resource", "lg=0.5", "--wait", "2m")
    assert task.command == "run"
    assert task.arguments == ["http://127.0.0.1:8000", "-c", "4"]
    assert (task.wish.hosts, task.wish.cpus, task.wish.wait) == (3, 1.0, 120.0)
    assert task.wish.resources == {"lg": 0.5}
    assert task.binary == Path(FAKE)


@pytest.mark.parametrize(
    ("text", "expected"), [("60s", 60), ("500ms", 0.5), ("2", 2), ("1.5h", 5400)]
)
def test_times_are_written_as_in_tokclock(text, expected):
    assert cli.seconds(text) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        ["--hosts", "0"],
        ["--hosts", "3", "--wait", "soon"],
        ["--hosts", "3", "--cpus-per-host", "nan"],
        ["--hosts", "3", "--resource", "lg"],
        [],
    ],
)
def test_a_wrong_option_is_a_usage_error(wrong):
    with pytest.raises(SystemExit) as end:
        asked("run", *wrong)
    assert end.value.code == USAGE


def test_a_secret_is_named_and_never_written(capsys, monkeypatch):
    monkeypatch.setenv("KEY", "s3cret")
    assert asked("run", "--hosts", "1", "--env", "KEY").env == {"KEY": "s3cret"}
    run = ["run", "--hosts", "1", "--binary", FAKE]
    said = refused(capsys, *run, "--env", "KEY=s3cret", "--", "x")
    assert "name only" in said and "s3cret" not in said
    assert "--env ABSENT: not set" in refused(
        capsys, *run, "--env", "ABSENT", "--", "x"
    )


def test_a_load_that_cannot_be_meant_is_refused_before_any_node_is_asked(capsys):
    run = ["run", "--hosts", "1", "--binary", FAKE]
    assert "nothing for tokclock" in refused(capsys, *run)
    assert "makes the workers" in refused(capsys, *run, "--", "x", "--worker", "ssh a")
    assert "makes the workers" in refused(capsys, *run, "--", "x", "--shard=0/2")
    absent = ["run", "--hosts", "1", "--binary", "/absent", "--", "x"]
    assert "no such file" in refused(capsys, *absent)


def test_ray_client_is_refused(capsys):
    argv = ["run", "--hosts", "1", "--binary", FAKE, "--address", "ray://a:10001"]
    assert "ray job submit" in refused(capsys, *argv, "--", "x")


def test_files_keep_names_that_hold_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.jsonl").write_text("x" * 10)
    items = parcel.pack(Path(FAKE), ["data/a.jsonl", "./data/a.jsonl"])
    assert [item.name for item in items] == ["", "data/a.jsonl"]
    for wrong in (str(tmp_path / "data/a.jsonl"), "../a", "absent"):
        with pytest.raises(Failure):
            parcel.check_names([wrong])


@pytest.mark.parametrize("size", [0, 1, 8, 9, 16, 17])
def test_pieces_are_the_file(tmp_path, monkeypatch, size):
    monkeypatch.setattr(parcel, "PIECE", 8)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(size)))
    pieces = list(parcel.Item(path, "file", "").pieces())
    assert b"".join(piece.data for piece in pieces) == path.read_bytes()
    assert [piece.offset for piece in pieces] == list(range(0, max(size, 1), 8))


def test_the_kind_of_cpu_is_read_from_the_binary(tmp_path):
    path = tmp_path / "binary"
    for number, order, expected in [
        (0x3E, 1, "x86_64"),
        (0xB7, 1, "aarch64"),
        (0x15, 2, "ppc64le"),
        (0x1234, 1, "ELF machine 4660"),
    ]:
        head = b"\x7fELF\x02" + bytes([order]) + bytes(12)
        path.write_bytes(head + number.to_bytes(2, "little" if order == 1 else "big"))
        assert parcel.machine(path) == expected
    assert parcel.machine(Path(FAKE)) is None


REPORT = """{"version": "0.1.0", "host": {"cpus_online": 8}, "findings": [
  {"id": "a", "title": "driver", "state": "ok", "value": "io_uring", "advice": null},
  {"id": "b", "title": "governor", "state": "warn", "value": "powersave", "advice": "Set it."},
  {"id": "c", "title": "clock", "state": "note", "value": "tsc", "advice": null}]}"""


def test_findings_are_a_row_for_each_node_and_words_for_each_warning():
    found = [
        findings.read("10.0.0.1", 0, REPORT, ""),
        findings.read("10.0.0.2", 1, "", "warming up\nno such CPU: 9\n"),
        findings.read("10.0.0.3", 0, "{}", ""),
    ]
    rows = findings.table(found).splitlines()
    assert rows[1].split() == ["10.0.0.1", "0.1.0", "8", "1", "1", "governor"]
    assert rows[2].endswith("no such CPU: 9")
    assert "not understood" in rows[3]
    assert "10.0.0.1: governor: powersave" in rows and "  Set it." in rows
    assert findings.warnings(found)[:2] == [
        "10.0.0.1: doctor warns of governor",
        "10.0.0.2: doctor: no such CPU: 9",
    ]


def start_relay(path: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", relay.__file__, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def listening(tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        server.settimeout(20)
        yield server


def test_a_relay_carries_both_ways_and_the_end_of_both(listening, tmp_path):
    process = start_relay(tmp_path / "s")
    link, _ = listening.accept()
    there, back = os.urandom(3_000_000), os.urandom(3_000_000)
    heard: list[bytes] = []
    taking = threading.Thread(target=lambda: heard.append(process.stdout.read()))
    sending = threading.Thread(
        target=lambda: (process.stdin.write(there), process.stdin.close())
    )
    answering = threading.Thread(target=link.sendall, args=(back,))
    for thread in (taking, sending, answering):
        thread.start()
    got = b""
    while data := link.recv(65536):
        got += data
    assert got == there
    assert process.poll() is None, "the worker may speak after its input ended"
    answering.join()
    link.close()
    taking.join()
    assert heard == [back]
    assert process.wait(20) == 0


def test_a_relay_ends_with_the_worker_though_nobody_closes_its_input(
    listening, tmp_path
):
    process = start_relay(tmp_path / "s")
    link, _ = listening.accept()
    link.close()
    assert process.wait(20) == 0
    process.stdin.close()


def test_a_relay_to_nowhere_says_so(tmp_path):
    process = start_relay(tmp_path / "absent")
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1 and b"no way to the worker" in err
