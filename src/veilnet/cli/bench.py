"""``veilnet bench``: every figure of the documentation, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilnet.cli._benchmarks import BENCHMARKS, LIST

_WITHOUT_SOLVERS = ("start", "house", "live-kills", "live-load")


def command(
    which: Annotated[
        str,
        typer.Argument(help=f"all, or one of them. {LIST}."),
    ] = "paper",
    quick: Annotated[
        bool, typer.Option("--quick", help="The quick form, of a minute or two: fewer and smaller instances.")
    ] = False,
    update_docs: Annotated[
        bool,
        typer.Option(
            "--update-docs",
            help="Keep what is found, with day, machine and command, in docs/figures, and write it into README and "
            "documentation. With all: the quick forms.",
        ),
    ] = False,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit",
            help="Seconds: with paper, for each solve of the paper's way (60); with --update-docs, for each "
            "benchmark (900).",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="With office: the folder with the log's training.csv and test2.csv."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="With paper: Markdown file to write the table to.")
    ] = None,
) -> None:
    """Measure veilnet against other ways to do the same, as ratios in one run.

    The benchmarks are not part of the installed package; this runs them from the repository it was installed from.
    """
    import os
    import subprocess
    import sys
    from importlib.util import find_spec

    import veilnet
    from veilnet._core.errors import InvalidRequest, VeilnetError
    from veilnet._core.extras import missing_extra

    if which != "all" and which not in BENCHMARKS:
        raise InvalidRequest(f"bench: expected {', '.join(BENCHMARKS)} or all, found {which!r}")
    _refuse_without_effect(which, quick=quick, limit=limit, update_docs=update_docs, data=data, out=out)
    root = Path(veilnet.__file__).resolve().parents[2]
    if not (root / "benchmarks").is_dir():
        raise VeilnetError(
            "bench: the benchmarks are not part of an installed veilnet; get its source repository and run "
            "'./veilnet bench' there"
        )
    if which not in _WITHOUT_SOLVERS and any(
        find_spec(each) is None for each in ("cvxpy", "clarabel", "scs")
    ):
        raise missing_extra("the benchmarks compare with other solvers", "paper")
    if which == "office" and data is None:
        raise InvalidRequest(
            "--data: expected the folder of the office's log for this benchmark, found none; examples/office.py says "
            "where to get it"
        )
    # one thread for everyone, said before numpy is loaded
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | os.environ
    failed = []
    for name in BENCHMARKS if which == "all" else (which,):
        if name == "office" and data is None:
            typer.echo(
                "office: left out, for want of --data FOLDER; what was measured earlier stays", err=True
            )
            continue
        in_short = quick or (which == "all" and update_docs)
        arguments = _arguments(root, name, in_short, limit if not update_docs else None, data, out)
        if update_docs:
            told = f"./veilnet bench {name}" + " --quick" * (
                in_short and not BENCHMARKS[name].is_always_quick
            )
            told += " --data FOLDER" * (name == "office")
            keep = [sys.executable, str(root / "tools" / "figures.py"), "measure", name, told]
            arguments = [*keep, repr(900.0 if limit is None else limit), "--", *arguments]
        if which == "all":
            typer.echo(f"\n== {name}: {BENCHMARKS[name].compares}")
        sys.stdout.flush()
        code = subprocess.run(arguments, check=False, env=environment).returncode
        if code and not (update_docs and which == "all"):
            raise typer.Exit(code)
        if code:
            failed.append(name)
    if update_docs:
        subprocess.run([sys.executable, str(root / "tools" / "figures.py"), "render"], check=True)
    if failed:
        typer.echo(f"not updated, since they failed or took too long: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _arguments(
    root: Path, name: str, quick: bool, limit: float | None, data: Path | None, out: Path | None
) -> list[str]:
    """What runs a benchmark in a process of its own: numpy must see the number of threads before it is loaded."""
    import sys

    arguments = [sys.executable, str(root / "benchmarks" / BENCHMARKS[name].script)]
    if name == "paper":
        arguments += ["--limit", repr((20.0 if quick else 60.0) if limit is None else limit)]
        arguments += [] if out is None else ["--out", str(out)]
    if name == "office":
        arguments.append(str(data))
    return arguments + list(BENCHMARKS[name].quick if quick else ())


def _refuse_without_effect(
    which: str, *, quick: bool, limit: float | None, update_docs: bool, data: Path | None, out: Path | None
) -> None:
    from veilnet._core.errors import InvalidRequest

    with_forms = {name for name, each in BENCHMARKS.items() if not each.is_always_quick}
    heeding = {
        "--limit": (limit is not None, set(BENCHMARKS) if update_docs else {"paper"}),
        "--out": (out is not None, {"paper"}),
        "--data": (data is not None, {"office"}),
        "--quick": (quick, with_forms),
    }
    for option, (given, names) in heeding.items():
        if given and which not in names | {"all"}:
            listed = " and ".join(sorted(names)) if len(names) < 3 else "benchmarks that have a quick form"
            raise InvalidRequest(
                f"{option}: goes with {listed} and has no effect with {which!r}; leave it out"
            )
