"""Tables in files: text, packed or not, is read by us; Parquet, Feather and Excel by pandas, an extra."""

from __future__ import annotations

import gzip
import io
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from veilnet._core.errors import InvalidNetwork
from veilnet._core.extras import missing_extra

__all__ = ["is_text_table", "open_text", "read_frame"]

_READERS = {
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".feather": "read_feather",
    ".arrow": "read_feather",
    ".xlsx": "read_excel",
}
_NEEDED = {"read_parquet": "pyarrow", "read_feather": "pyarrow", "read_excel": "openpyxl"}


def is_text_table(path: Path) -> bool:
    """Whether a file's name says nothing else than text."""
    return path.suffix.lower() not in _READERS


def open_text(path: Path) -> IO[str]:
    """A table's text, unpacked where its name ends in .gz."""
    if path.suffix.lower() == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def read_frame(path: Path) -> Any:
    """The first table of such a file, as pandas reads it."""
    reader = _READERS[path.suffix.lower()]
    try:
        pandas = import_module("pandas")
        import_module(_NEEDED[reader])
    except ImportError:
        raise missing_extra(
            f"{path}: {path.suffix} files need pandas and {_NEEDED[reader]}", "tables"
        ) from None
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    try:
        return getattr(pandas, reader)(path)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidNetwork(f"{path}: not readable as {path.suffix}: {reason}") from error
