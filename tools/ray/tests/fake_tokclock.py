#!/usr/bin/env python3
"""Stands in for the binary where a test is about carrying: a worker that answers, a coordinator that asks.

`fake run WHAT [--exit CODE] --worker CMD...` does WHAT with all its workers and prints one line of JSON for each.
"""

import base64
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

FINDINGS = [
    {
        "id": "driver",
        "title": "driver",
        "state": "ok",
        "value": "io_uring",
        "advice": None,
    },
    {
        "id": "load",
        "title": "load",
        "state": "warn",
        "value": "busy",
        "advice": "End it.",
    },
]


def say(**what):
    print(json.dumps(what), flush=True)


def worker():
    """Answers until its input ends."""
    # In a group of its own, as the real one's.
    child = subprocess.Popen(
        ["sleep", "3600"], stdin=subprocess.DEVNULL, start_new_session=True
    )
    for line in sys.stdin:
        asked = json.loads(line)
        match asked["do"]:
            case "hello":
                say(pid=os.getpid(), child=child.pid, cwd=os.getcwd(), argv=sys.argv)
            case "clock":
                say(id=asked["id"], at=time.time_ns())
            case "remark":
                print("a remark", file=sys.stderr, flush=True)
                say(remarked=True)
            case "large":
                data = os.urandom(asked["size"])
                say(
                    data=base64.b64encode(data).decode(),
                    sha=hashlib.sha256(data).hexdigest(),
                )
            case "take":
                say(sha=hashlib.sha256(asked["data"].encode()).hexdigest())
            case "file":
                say(
                    text=Path(asked["name"]).read_text(),
                    mode=os.stat(asked["name"]).st_mode & 0o777,
                )
            case "env":
                say(value=os.environ.get(asked["name"]))
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
    child.kill()
    child.wait()


class Worker:
    """The coordinator's end of one."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, **what):
        """The answer, or nothing where the worker is gone."""
        try:
            self.process.stdin.write(json.dumps(what).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait(30)


def clock(one, count):
    """Round trips in µs, and by how much the quickest one would misjudge a clock that is the same."""
    trips = []
    for number in range(count):
        before = time.time_ns()
        said = one.ask(do="clock", id=number)
        after = time.time_ns()
        assert said["id"] == number
        trips.append(
            ((after - before) / 1e3, (said["at"] - (before + after) / 2) / 1e3)
        )
        time.sleep(0.005)
    trips.sort()
    least, off = trips[0]
    return {
        "least": least,
        "off": off,
        "median": trips[count // 2][0],
        "p90": trips[count * 9 // 10][0],
    }


def hold(workers):
    """Asks all workers again and again until a signal comes or all are gone: what is left of them."""
    stopped = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stopped.append(number))
    while not stopped:
        alive = sum(one.ask(do="clock", id=0) is not None for one in workers)
        print(f"{alive} of {len(workers)} alive", file=sys.stderr, flush=True)
        if alive == 0:
            break
        time.sleep(0.2)
    return {"stopped": [signal.Signals(one).name for one in stopped], "alive": alive}


def coordinate(argv):
    """Does what is asked with every worker."""
    what, commands, code = argv[0], [], 0
    rest = argv[1:]
    while rest:
        if rest[0] == "--worker":
            commands.append(rest[1])
        elif rest[0] == "--exit":
            code = int(rest[1])
        rest = rest[2:]
    workers = [Worker(command) for command in commands]
    kind, _, value = what.partition(":")
    for one in workers:
        if kind != "hello":
            break
        print(json.dumps(one.ask(do="hello")), flush=True)
    for one in workers:
        match kind:
            case "clock":
                print(json.dumps(clock(one, int(value))))
            case "large":
                took = time.perf_counter()
                said = one.ask(do="large", size=int(value))
                took = time.perf_counter() - took
                right = (
                    hashlib.sha256(base64.b64decode(said["data"])).hexdigest()
                    == said["sha"]
                )
                text = said["data"]
                taken = one.ask(do="take", data=text)["sha"]
                back = taken == hashlib.sha256(text.encode()).hexdigest()
                print(
                    json.dumps(
                        {"right": right, "back": back, "mb_s": len(text) / took / 1e6}
                    )
                )
            case "file" | "env":
                print(json.dumps(one.ask(do=kind, name=value)))
            case "remark" | "die":
                print(json.dumps(one.ask(do=kind)))
    if kind == "tty":
        print(json.dumps({"tty": os.isatty(2)}), flush=True)
    if kind == "hold":
        for one in workers:
            print(json.dumps(one.ask(do="hello")), flush=True)
        print(json.dumps(hold(workers)), flush=True)
    for one in workers:
        one.end()
    return code


if __name__ == "__main__":
    if sys.argv[1] == "doctor":
        host = {"cpus_online": os.cpu_count()}
        print(json.dumps({"version": "0.0.0", "host": host, "findings": FINDINGS}))
    elif sys.argv[1] == "worker":
        worker()
    else:
        sys.exit(coordinate(sys.argv[2:]))
