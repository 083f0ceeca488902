"""Watches over one worker and its directory on a node, and outlives whoever started it by seconds only.

Started by the actor as `python keeper.py LIFELINE STATUS DIRECTORY KEEP GRACE`, where LIFELINE and STATUS are
descriptors of pipes. The actor sends one line of JSON by the lifeline, `{"argv": [...], "env": {...}}`, and keeps it
open. The end of the lifeline is the end of the actor, in whatever way: then the worker has GRACE seconds to stop by
itself (its standard input has ended too), and the directory is removed unless KEEP is 1. It runs apart from the actor,
since Ray kills an actor's children with the actor and nobody would be left to tidy up.

Only the standard library, and one file: it is sent to the node as text.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def die_with(keeper: int) -> None:
    """Runs in the worker before it becomes the worker: a keeper that is killed takes it along."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if os.getppid() != keeper:
        os._exit(1)


def order(lifeline: int) -> dict | None:
    """What to start, or nothing if the actor went away before it said so."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(lifeline, 65536)
        if not piece:
            return None
        line += piece
    return json.loads(line)


def tell(status: int, **what: object) -> None:
    """A line for the actor, if there still is one."""
    try:
        os.write(status, json.dumps(what).encode() + b"\n")
    except BrokenPipeError:
        pass


def start(what: dict, directory: str) -> subprocess.Popen:
    """The worker, in a process group of its own, with the streams that the actor holds the ends of."""
    keeper = os.getpid()
    return subprocess.Popen(
        what["argv"],
        env={**os.environ, **what["env"]},
        cwd=os.path.join(directory, "files"),
        start_new_session=True,
        preexec_fn=lambda: die_with(keeper),  # noqa: PLW1509 (there is one thread)
    )


def let_go() -> None:
    """The worker's streams are the worker's alone: their ends must be seen when it ends."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    if nothing > 2:
        os.close(nothing)


def ended(worker: subprocess.Popen, lifeline: int) -> bool:
    """Waits for the worker's end or the actor's: true if it was the worker's."""
    watched = [lifeline]
    try:
        end = os.pidfd_open(worker.pid)
        watched.append(end)
    except (AttributeError, OSError):
        end = None
    while worker.poll() is None:
        readable, _, _ = select.select(watched, [], [], None if end else 0.1)
        if lifeline in readable and not os.read(lifeline, 4096):
            return worker.poll() is not None
    return True


def children() -> list[int]:
    """This process's children: with the worker, all whose own parent ended before them."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # It has ended meanwhile.
        if parent == os.getpid():
            found.append(int(name))
    return found


def end_all(worker: int) -> None:
    """The end of what a worker started, in whatever group, where any of it is left."""
    try:
        os.killpg(worker, signal.SIGKILL)
    except ProcessLookupError:
        pass
    while left := [pid for pid in children() if pid != worker]:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def finish(worker: subprocess.Popen, grace: float) -> None:
    """The worker's last seconds, then the end of all that it started."""
    try:
        worker.wait(grace)
    except subprocess.TimeoutExpired:
        pass
    end_all(worker.pid)
    worker.wait()
    # The worker's own children have come to this process only now.
    end_all(worker.pid)


def remove(directory: str) -> None:
    """Processes that are being killed may still write: a second look after a moment."""
    for _ in range(20):
        shutil.rmtree(directory, ignore_errors=True)
        if not os.path.exists(directory):
            return
        time.sleep(0.1)


def keep(lifeline: int, status: int, directory: str, grace: float) -> None:
    """From the order to the end of the actor."""
    what = order(lifeline)
    if what is None:
        return
    try:
        worker = start(what, directory)
    except (OSError, subprocess.SubprocessError) as error:
        tell(status, failed=str(error))
        let_go()
        while os.read(lifeline, 4096):
            pass
        return
    tell(status, pid=worker.pid)
    let_go()
    if ended(worker, lifeline):
        end_all(worker.pid)
        tell(status, code=worker.returncode)
        while os.read(lifeline, 4096):
            pass
    finish(worker, grace)


def main() -> None:
    """Leaves the actor, then keeps."""
    lifeline, status = int(sys.argv[1]), int(sys.argv[2])
    directory, stays, grace = sys.argv[3], sys.argv[4] == "1", float(sys.argv[5])
    if os.fork() != 0:
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    for end in (lifeline, status):
        os.set_inheritable(end, False)
    try:
        keep(lifeline, status, directory, grace)
    finally:
        if not stays:
            remove(directory)


if __name__ == "__main__":
    main()
