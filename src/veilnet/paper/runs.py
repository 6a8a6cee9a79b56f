"""Running the draws: on any joblib backend, resumable, with the same numbers however they are run.

Each draw is a file of its own in ``out/draws``, written whole or not at all by the process that was started; the
CSV of a figure is these files in order. A killed run therefore loses only the draws it was working on, and the
run that resumes it ends with the same bytes. Linear algebra runs on one thread in every draw, wherever it is
measured, since the number of threads changes last digits.
"""

from __future__ import annotations

import json
import signal
import threading
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet._core.progress import Progress, asks_to_stop, silent
from veilnet._core.threads import one_thread
from veilnet.io._atomic import write_text
from veilnet.paper.claims import Claim, claims_of
from veilnet.paper.figures import FIGURES
from veilnet.paper.plots import draw_figure
from veilnet.paper.results_readme import readme
from veilnet.paper.settings import Settings
from veilnet.paper.tables import Table, csv_lines, read_table


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What a run has written to ``folder``, and the claims it has checked.

    measured:    how many draws this run has measured; the others were there.
    interrupted: whether it was stopped before the last draw. Draws are kept for the run that resumes it; tables,
                 plots and README.md are then as they were before, and no claim is checked.
    """

    folder: Path
    tables: dict[str, Table]
    claims: tuple[Claim, ...]
    measured: int
    interrupted: bool = False


def reproduce(
    figures: Sequence[str] = tuple(FIGURES),
    settings: Settings | None = None,
    out: str | PathLike[str] = "results",
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Measure the draws that are missing in ``out``, then write tables, plots and README.md from all of them.

    ``jobs`` goes to joblib; None leaves the choice to it, so that ``joblib.parallel_config("dask")`` around the
    call sends the draws to a cluster. ``progress`` is called after each draw with (draws done in words, as a
    fraction); when it answers False, no further draw is measured and the result is marked ``interrupted``.
    """
    need_extras()
    chosen = _read_figures(figures)
    plan = settings or Settings()
    folder = Path(out)
    _open_folder(folder, plan)
    missing = _missing(folder, plan, chosen)
    finished = plan.draws - len(missing)
    tell = progress or silent

    def asked_to_stop(done: int) -> bool:
        return asks_to_stop(tell(f"{done} of {plan.draws} draws", done / plan.draws)) and done < plan.draws

    if asked_to_stop(finished):
        return Reproduction(folder, {}, (), 0, interrupted=True)
    with closing(_measure_all(plan, missing, jobs)) as draws:  # closed, it abandons what is being measured
        for done, (number, measured) in enumerate(draws, 1):
            for name, text in measured.items():
                _fragment(folder, name, number).parent.mkdir(parents=True, exist_ok=True)
                write_text(_fragment(folder, name, number), text)
            if asked_to_stop(finished + done):
                return Reproduction(folder, {}, (), done, interrupted=True)
    return _write_results(folder, plan, chosen, len(missing))


def measure_draw(settings: Settings, number: int, figures: Sequence[str]) -> tuple[int, dict[str, str]]:
    """One draw, for some figures, as CSV lines: the same whether alone, among others, here or elsewhere."""
    with one_thread():
        return number, {name: csv_lines(FIGURES[name].measure(settings, number)) for name in figures}


def _measure_all(
    settings: Settings, missing: Sequence[tuple[int, list[str]]], jobs: int | None
) -> Generator[tuple[int, dict[str, str]]]:
    import joblib

    # One draw is one task (joblib would batch quick ones): what is done is on disk before the next is.
    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    with _deaf_to_interrupts():  # processes are started here, the first draws handed out, and none waited for
        found: Any = pool(joblib.delayed(measure_draw)(settings, number, names) for number, names in missing)
    try:
        # Not "yield from", with which closing this generator closes joblib's at once.
        for one in found:  # noqa: UP028
            yield one
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # draws are abandoned: that is what stopping means
            found.close()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes started within ignore Ctrl-C: a terminal sends it to them too, and each would print a traceback.

    The process that started them hears it and ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)  # None: installed by other than Python


def _missing(folder: Path, settings: Settings, figures: Sequence[str]) -> list[tuple[int, list[str]]]:
    wanted = [
        (number, [name for name in figures if not _fragment(folder, name, number).is_file()])
        for number in range(settings.draws)
    ]
    return [(number, names) for number, names in wanted if names]


def _fragment(folder: Path, name: str, number: int) -> Path:
    return folder / "draws" / name / f"{number:05d}.csv"


def _write_results(folder: Path, settings: Settings, chosen: Sequence[str], measured: int) -> Reproduction:
    tables: dict[str, Table] = {}
    for name, figure in FIGURES.items():
        pieces = [_fragment(folder, name, number) for number in range(settings.draws)]
        if not all(piece.is_file() for piece in pieces):
            continue  # asked for another time, or never finished: README.md speaks of whole figures only
        header = ",".join(figure.columns) + "\n"
        text = header + "".join(piece.read_text(encoding="utf-8") for piece in pieces)
        tables[name] = read_table(text, figure.columns)
        if name in chosen:
            write_text(folder / f"{name}.csv", text)
            draw_figure(name, tables[name], settings, folder)
    claims = tuple(claim for name, table in tables.items() for claim in claims_of(name, table, settings))
    write_text(folder / "README.md", readme(settings, tables, claims))
    return Reproduction(folder, tables, claims, measured)


def _open_folder(folder: Path, settings: Settings) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    mine = settings.as_document()
    if not path.exists():
        if (folder / "draws").exists():
            raise InvalidRequest(
                f"out: {folder} holds draws but no settings.json to tell what they are; choose another folder"
            )
        write_text(path, json.dumps(mine, indent=2) + "\n")
        return
    try:
        theirs = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidRequest(f"out: {path} is not JSON ({error}); choose another folder") from error
    if theirs == mine:
        return
    other = theirs if isinstance(theirs, dict) else {}
    key = next(key for key in (*mine, *other) if other.get(key) != mine.get(key))
    raise InvalidRequest(
        f"out: {folder} holds results for {key} = {other.get(key)}, found {key} = {mine.get(key)}; "
        "ask for the same to resume them, or choose another folder with --out"
    )


def _read_figures(figures: Sequence[str]) -> list[str]:
    unknown = [name for name in figures if name not in FIGURES]
    if unknown or not figures:
        raise InvalidRequest(
            f"figure: expected {', '.join(FIGURES)} or all, found {', '.join(unknown) or 'nothing'}"
        )
    return [name for name in FIGURES if name in figures]


def need_extras() -> None:
    """Refuse, with the line that installs them, when packages of the extra are missing."""
    try:
        import joblib  # noqa: F401
        import matplotlib  # noqa: F401
        import threadpoolctl  # noqa: F401
    except ImportError as error:
        raise missing_extra("reproducing the paper needs more packages", "paper") from error
