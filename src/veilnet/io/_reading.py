"""Reading files that may be missing, empty, too large or not what they claim; one message for each."""

from __future__ import annotations

from pathlib import Path

from veilnet._core.errors import InvalidNetwork, InvalidRequest

TEXT_LIMIT = 64 * 2**20  # bytes of a .toml, .json or .csv file
ARRAY_LIMIT = 2 * 2**30  # bytes of a .npz, .npy or .mat file, compressed or not


def size_of(path: Path, limit: int) -> int:
    """Size of a file that is there, is a file, is not empty and not larger than the limit."""
    try:
        found = path.stat()
        regular = path.is_file()
    except FileNotFoundError:
        raise InvalidNetwork(f"{path}: no such file; check the name and the folder") from None
    except (OSError, ValueError) as error:
        raise InvalidNetwork(f"{path}: cannot be read ({_reason(error)})") from error
    refuse_parts(path)
    if not regular:
        raise InvalidNetwork(f"{path}: expected a file, found a folder or a device")
    if found.st_size == 0:
        raise InvalidNetwork(f"{path}: the file is empty; write it again, or start from 'veilnet init'")
    refuse_oversized(path, found.st_size, limit)
    return found.st_size


def refuse_parts(path: Path) -> None:
    """An error where a folder of parts is given for something in one piece."""
    if (path / "header.json").is_file():
        raise InvalidRequest(
            f"{path}: is a network in parts; 'veilnet parts' and veilnet.cluster are for those"
        )


def refuse_oversized(path: Path, size: int, limit: int) -> None:
    """An error if so many bytes are more than are read from a file of this kind."""
    if size > limit:
        advice = "is it the right file?" if limit == ARRAY_LIMIT else "use .npz or .npy for large arrays"
        raise InvalidNetwork(f"{path}: oversized, {size:,} bytes where at most {limit:,} are read; {advice}")


def read_bytes(path: Path, limit: int) -> bytes:
    """All bytes of a file within the limit."""
    size = size_of(path, limit)
    try:
        with path.open("rb") as file:
            # not limit + 1: Python takes that much memory, and a device has less
            content = file.read(size + 1)
            if len(content) > size:  # it grew meanwhile
                content += file.read(limit - size)
    except OSError as error:
        raise InvalidNetwork(f"{path}: cannot be read ({_reason(error)})") from error
    refuse_oversized(path, len(content), limit)
    return content


def read_text(path: Path) -> str:
    """A UTF-8 text within the limit, with or without a byte order mark."""
    content = read_bytes(path, TEXT_LIMIT)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidNetwork(
            f"{path}: expected UTF-8 text, found other bytes in line {line}; save the file as UTF-8"
        ) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
