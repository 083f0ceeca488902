"""The command that the coordinator takes for a worker: joins its standard streams to a Unix socket.

It knows nothing of Ray, so it starts at once; what it carries goes on to the node in `tokclock_ray.bridge`.
"""

import os
import signal
import socket
import sys
import threading

PIECE = 65536


def write_all(to: int, data: bytes) -> None:
    """Writes all of `data`, however little the pipe takes at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(to, rest) :]


def carry_in(source: int, link: socket.socket) -> None:
    """Carries the coordinator's words until it closes them, and passes the end on."""
    try:
        while data := os.read(source, PIECE):
            link.sendall(data)
        link.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # The other direction notices, and ends the process.


def relay(path: str, source: int, sink: int) -> int:
    """Carries both directions until the worker's side ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        try:
            link.connect(path)
        except OSError as error:
            print(
                f"tokclock-ray: no way to the worker by {path}: {error}",
                file=sys.stderr,
            )
            return 1
        threading.Thread(target=carry_in, args=(source, link), daemon=True).start()
        try:
            while data := link.recv(PIECE):
                write_all(sink, data)
        except OSError:
            return 1
    return 0


if __name__ == "__main__":
    # A Ctrl-C is the coordinator's to answer; it closes the relay when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if len(sys.argv) != 2:
        print("usage: relay.py SOCKET", file=sys.stderr)
        sys.exit(2)
    code = relay(sys.argv[1], 0, 1)
    # The other direction may wait in a read for ever: there is nobody to tell any more.
    os._exit(code)
