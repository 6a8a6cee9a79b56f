"""``veilnet bench``: the paper's way against veilnet, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    quick: Annotated[bool, typer.Option("--quick", help="One small instance of each problem.")] = False,
    limit: Annotated[
        float, typer.Option("--limit", help="Seconds for each solve of the paper's way.")
    ] = 60.0,
    out: Annotated[Path | None, typer.Option("--out", help="Markdown file to write the table to.")] = None,
) -> None:
    """Solve the same instances the paper's way (CVXPY with Clarabel and SCS) and ours: time, objective, status.

    The benchmarks are not part of the installed package; this runs them from the repository it was installed from.
    """
    import subprocess
    import sys
    from importlib.util import find_spec

    import veilnet
    from veilnet.errors import MissingExtra, VeilnetError

    script = Path(veilnet.__file__).resolve().parents[2] / "benchmarks" / "run.py"
    if not script.is_file():
        raise VeilnetError(
            "bench: the benchmarks are not part of an installed veilnet; get its source repository and run "
            "'./veilnet bench' there"
        )
    if any(find_spec(package) is None for package in ("cvxpy", "clarabel", "scs")):
        raise MissingExtra('the benchmarks compare with other solvers: pip install "veilnet[paper]"')
    arguments = [sys.executable, str(script), "--limit", repr(limit)]
    arguments += ["--quick"] if quick else []
    arguments += ["--out", str(out)] if out is not None else []
    sys.stdout.flush()
    # Its own process: numpy must see the number of threads before it is loaded.
    code = subprocess.run(arguments, check=False).returncode
    if code:
        raise typer.Exit(code)
