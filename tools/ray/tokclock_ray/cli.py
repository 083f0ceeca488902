"""Commands and options."""

import argparse
import os
import re
import sys

from tokclock_ray import __version__, parcel
from tokclock_ray.failure import COULD_NOT, INTERRUPTED, USAGE, Failure

COMMANDS = {
    "run": "one load point over many nodes",
    "sweep": "the curve, with the same nodes for all its levels",
    "search": "the highest load that keeps objectives, with the same nodes for all its probes",
    "doctor": "what each node can do for a load client",
}
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """A time as tokclock writes it: 60s, 500ms, 2m."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 60s")
    return float(found[1]) * UNITS[found[2] or "s"]


def hosts(text: str) -> int:
    """A number of nodes: at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of hosts")
    return int(text)


def amount(text: str) -> float:
    """How many CPUs: not fewer than none."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of CPUs")
    return number


def resource(text: str) -> tuple[str, float]:
    """NAME=AMOUNT of a resource that the cluster's nodes were given."""
    name, mark, most = text.partition("=")
    try:
        number = float(most)
    except ValueError:
        number = 0.0
    if not name or not mark or not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=AMOUNT")
    return name, number


def parser() -> argparse.ArgumentParser:
    """All commands take the same options, but for what only doctor or only a load needs."""
    top = argparse.ArgumentParser(
        prog="tokclock-ray",
        description="Runs tokclock over the nodes of a Ray cluster.",
        epilog="What follows -- is for tokclock: its URL and its options.",
        allow_abbrev=False,
    )
    top.add_argument(
        "--version", action="version", version=f"tokclock-ray {__version__}"
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=purpose,
            description=purpose.capitalize() + ".",
            usage=f"tokclock-ray {name} [OPTIONS] -- URL [OPTIONS OF tokclock {name}]",
            allow_abbrev=False,
        )
        add_options(one, name)
    return top


def add_options(one: argparse.ArgumentParser, command: str) -> None:
    """The options of one command."""
    one.add_argument("--address", default=os.environ.get("RAY_ADDRESS", "auto"), metavar="ADDR",
                     help="the cluster, HOST:PORT or auto [default: RAY_ADDRESS, else auto]")  # fmt: skip
    all_nodes = command == "doctor"
    one.add_argument("--hosts", type=hosts, required=not all_nodes, metavar="N",
                     help="so many nodes, one worker on each" + (" [default: all]" if all_nodes else ""))  # fmt: skip
    one.add_argument("--cpus-per-host", type=amount, default=1.0, metavar="K",
                     help="CPUs to take of each node, so that Ray puts nothing else there [default: 1]")  # fmt: skip
    one.add_argument("--resource", type=resource, action="append", default=[], metavar="NAME=AMOUNT",
                     help="only nodes with this resource; may be repeated")  # fmt: skip
    one.add_argument("--binary", metavar="PATH", help="the tokclock to run here and on every node [default: from PATH]")  # fmt: skip
    one.add_argument("--dir", metavar="DIR", help="where nodes make their private directory [default: the nodes' own for temporary files]")  # fmt: skip
    one.add_argument("--wait", type=seconds, default=60.0, metavar="TIME", help="how long to wait for nodes [default: 60s]")  # fmt: skip
    one.add_argument(
        "-q", "--quiet", action="store_true", help="say only what went wrong"
    )
    if all_nodes:
        one.add_argument(
            "--json", action="store_true", help="print all reports as JSON, by node"
        )
        return
    one.add_argument("--file", action="append", default=[], metavar="PATH",
                     help="send this file (a data set, a tokenizer) to every node, under the same name; may be repeated")  # fmt: skip
    one.add_argument("--env", action="append", default=[], metavar="NAME",
                     help="give this variable, with the value it has here, to every worker; may be repeated")  # fmt: skip
    one.add_argument("--keep", action="store_true", help="leave the workers' directories on the nodes")  # fmt: skip


def environment(names: list[str]) -> dict[str, str]:
    """The variables to pass on. Values are read here and are never part of a command line."""
    for name in names:
        if "=" in name:
            raise Failure(
                "--env takes a name only; its value comes from the environment", USAGE
            )
        if name not in os.environ:
            raise Failure(f"--env {name}: not set here", USAGE)
    return {name: os.environ[name] for name in names}


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Ours, and what follows `--`."""
    if "--" not in argv:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def check_arguments(command: str, arguments: list[str]) -> None:
    """What cannot be meant, before any node is asked for."""
    if command != "doctor" and not arguments:
        raise Failure(f"nothing for tokclock: tokclock-ray {command} ... -- URL", USAGE)
    for taken in ("--worker", "--workers", "--shard"):
        if any(one == taken or one.startswith(taken + "=") for one in arguments):
            raise Failure(
                f"{taken} after --: tokclock-ray makes the workers itself", USAGE
            )


def task(argv: list[str]):
    """What was asked for, checked as far as it can be here."""
    ours, arguments = split(argv)
    options = parser().parse_args(ours)
    check_arguments(options.command, arguments)
    files = getattr(options, "file", [])
    parcel.check_names(files)
    binary = parcel.find_binary(options.binary)
    env = environment(getattr(options, "env", []))
    # Ray is slow to import, and nothing before this needs it.
    from tokclock_ray.cluster import Wish
    from tokclock_ray.session import Task

    wish = Wish(
        address=options.address,
        hosts=options.hosts,
        cpus=options.cpus_per_host,
        resources=dict(options.resource),
        wait=options.wait,
        directory=options.dir,
        keep=getattr(options, "keep", False),
    )
    return Task(
        command=options.command,
        wish=wish,
        binary=binary,
        files=files,
        env=env,
        arguments=arguments,
        json=getattr(options, "json", False),
        quiet=options.quiet,
    )


def main(argv: list[str] | None = None) -> int:
    """The command: its exit code is the coordinator's, or 2 for usage, 1 for what could not be done."""
    try:
        asked = task(sys.argv[1:] if argv is None else argv)
        from tokclock_ray.session import run

        return run(asked)
    except Failure as failure:
        print(f"tokclock-ray: {failure}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        print("tokclock-ray: interrupted", file=sys.stderr)
        return INTERRUPTED
    except ImportError as error:
        print(f"tokclock-ray: {error} (pip install ray)", file=sys.stderr)
        return COULD_NOT
