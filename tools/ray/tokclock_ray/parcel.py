"""What is sent to every node: the binary, and the files that options name."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tokclock_ray.failure import USAGE, Failure

# Small enough for any object store, large enough that a binary is a few dozen calls.
PIECE = 8 * 1024 * 1024
# e_machine of an ELF header, and what the kernel calls the same.
MACHINES = {0x3E: "x86_64", 0xB7: "aarch64", 0xF3: "riscv64", 0x15: "ppc64le"}


@dataclass(frozen=True)
class Piece:
    """Part of a file."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Item:
    """A file here, the name it gets below the worker's directory (none: it is the binary), and its digest."""

    path: Path
    name: str
    digest: str

    def pieces(self) -> Iterator[Piece]:
        """The file from its beginning; an empty one is one empty piece."""
        with self.path.open("rb") as file:
            offset = 0
            while (data := file.read(PIECE)) or offset == 0:
                yield Piece(offset, data)
                if not data:
                    break
                offset += len(data)


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            found.update(data)
    return found.hexdigest()


def find_binary(named: str | None) -> Path:
    """The binary that all run: the one named, else `tokclock` in PATH."""
    if named is None:
        found = shutil.which("tokclock")
        if found is None:
            raise Failure("no tokclock in PATH: name it by --binary PATH", USAGE)
        return Path(found).resolve()
    path = Path(named)
    if not path.is_file():
        raise Failure(f"--binary {named}: no such file", USAGE)
    if not os.access(path, os.X_OK):
        raise Failure(f"--binary {named}: not executable (chmod +x {named})", USAGE)
    return path.resolve()


def machine(binary: Path) -> str | None:
    """What kind of CPU a binary is for, as `uname -m` says it; none for what is no ELF file."""
    with binary.open("rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    return MACHINES.get(number, f"ELF machine {number}")


def check_names(names: list[str]) -> None:
    """A file has the same relative name on the nodes as here, since the options say that name."""
    for name in names:
        path = Path(name)
        if path.is_absolute() or ".." in path.parts:
            raise Failure(
                f"--file {name}: the options name it, so the name must hold on every node: "
                "give a path below the current directory",
                USAGE,
            )
        if not path.is_file():
            raise Failure(f"--file {name}: no such file", USAGE)


def pack(binary: Path, names: list[str]) -> list[Item]:
    """Everything to send, read once for its digests."""
    check_names(names)
    items = [Item(binary, "", digest(binary))]
    unique = dict.fromkeys(str(Path(name)) for name in names)
    return items + [Item(Path(name), name, digest(Path(name))) for name in unique]
