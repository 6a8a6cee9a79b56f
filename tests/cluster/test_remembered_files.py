"""What a worker keeps of a file is made anew when the file changed, and only then."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from veilnet.cluster.parts import PartFile
from veilnet.cluster.searching import remembered


@pytest.mark.parametrize("change", ["time", "size"])
def test_a_changed_file_is_read_again(tmp_path: Path, change: str) -> None:
    """Another time with the same size, or another size with the same time: either makes it another file."""
    part = PartFile(tmp_path, "part.npz")
    part.path.write_bytes(b"abcd")
    os.utime(part.path, ns=(10**18, 10**18))
    read: list[bytes] = []

    @dataclass
    class Bytes:
        about: str

        def stacks(self, part: PartFile) -> list[np.ndarray]:
            read.append(part.path.read_bytes())
            return [np.frombuffer(read[-1], np.uint8)]

    first = remembered(part, Bytes("about"))
    assert remembered(part, Bytes("about")) is first
    part.path.write_bytes(b"efgh" if change == "time" else b"efghi")
    later = 10**18 + (1 if change == "time" else 0)
    os.utime(part.path, ns=(later, later))
    assert remembered(part, Bytes("about"))[0].tobytes() == part.path.read_bytes()
    assert remembered(part, Bytes("other")) is not first
    assert len(read) == 3
