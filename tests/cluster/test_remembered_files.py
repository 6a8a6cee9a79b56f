"""What a worker keeps of a file is made anew when the file changed, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from veilnet.cluster.remembering import remembered


@pytest.mark.parametrize("change", ["time", "size"])
def test_a_changed_file_is_read_again(tmp_path: Path, change: str) -> None:
    """Another time with the same size, or another size with the same time: either makes it another file."""
    path = tmp_path / "part.npz"
    path.write_bytes(b"abcd")
    os.utime(path, ns=(10**18, 10**18))
    read: list[bytes] = []

    def make() -> tuple[np.ndarray, ...]:
        read.append(path.read_bytes())
        return (np.frombuffer(read[-1], np.uint8),)

    first = remembered(path, "about", make)
    assert remembered(path, "about", make) is first
    path.write_bytes(b"efgh" if change == "time" else b"efghi")
    later = 10**18 + (1 if change == "time" else 0)
    os.utime(path, ns=(later, later))
    assert remembered(path, "about", make)[0].tobytes() == path.read_bytes()
    assert remembered(path, "other", make) is not first
    assert len(read) == 3
