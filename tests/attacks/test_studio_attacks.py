"""What a studio leaves behind when it is killed: nothing of the log that it was given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette")

LOG = "T_out,people,k1\n" + "".join(f"{k}.25,{k % 3},{k}.5\n" for k in range(50))


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_a_studio_that_is_killed_leaves_no_copy_of_a_log(tmp_path: Path, ending: signal.Signals) -> None:
    """Its copy stayed in the folder for temporary files, where nobody looks for somebody's readings."""
    (tmp_path / "log.csv").write_text(LOG)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "veilnet", "studio", str(tmp_path / "log.csv")]
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=_hang_up_ends
    ) as studio:
        assert studio.stdout is not None
        try:
            assert any("http://127.0.0.1:" in line for line in studio.stdout)
            studio.send_signal(ending)
            studio.wait(timeout=60)
        finally:
            studio.kill()
    assert [path for path in temporary.rglob("*") if path.is_file()] == []


def _hang_up_ends() -> None:
    """Tests that ``nohup`` started pass on that a hang-up is ignored; the studio of a terminal is ended by it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
