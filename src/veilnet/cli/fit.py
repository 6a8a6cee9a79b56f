"""``veilnet fit``: a network from a table of calibration data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from veilnet.cli._command_line import JSON, argument, option

if TYPE_CHECKING:
    from veilnet.calibration.report import CalibrationReport
    from veilnet.model.network import Network

_PRIVATE = option(
    "--private",
    "Columns that must not be known, likewise. people:change=1 says which change must stay hidden, "
    "people:change=1,lasts=1h for how long it stays; of a column with two values it is their distance. "
    "activity:classes: any move from one of its values to another.",
    required=True,
)


def command(
    data: Path = argument(
        "A table whose first line names the columns: .csv, .csv.gz, .jsonl, Parquet, Feather, Excel."
    ),
    agent: list[str] = option(
        "--agent", "What an agent reads: kitchen=T1,RH_1. Once per agent.", required=True
    ),
    public: list[str] = option(
        "--public", "Columns that may be known: T_out, or climate=T_out,RH_out.", required=True
    ),
    private: list[str] = _PRIVATE,
    out: Path | None = option("--out", "Network file to write: .toml, .json or .npz."),
    time: str | None = option(
        "--time", "The column that tells when a row was measured: sorts rows, finds gaps."
    ),
    stream: bool | None = option(
        "--stream/--rows",
        "A network of streams, or of single rows. Neither: of streams where unseen rows favour it.",
    ),
    report: Path | None = option(
        "--report", "File for the report (JSON); with --out house.toml it is house.report.json anyway."
    ),
    missing: str = option(
        "--missing", "Rows with missing values: refuse the table, or drop them.", default="refuse"
    ),
    independent: bool = option("--independent", "The agents are known to share no noise."),
    no_prior: bool = option("--no-prior", "The centre knows nothing of x beforehand."),
    no_limits: bool = option("--no-limits", "Propose no credible limits: agents send whatever they read."),
    no_predictive: bool = option(
        "--no-predictive", "State noise as residuals show it, not as new rows will."
    ),
    accept: list[str] | None = option(
        "--accept", "A doubt to accept by its name (repeat); the network remembers."
    ),
    force: bool = option("--force", "Replace the file of --out if it exists."),
    symbols: bool = option(
        "--symbols", "Not a network, but a plan in which agents send symbols: --out is its folder."
    ),
    guessed: list[str] | None = option(
        "--guessed",
        "Of symbols: largest share of rows in which anybody may name a private class, 0.2, or person=0.2 (repeat); "
        "of a private number the least error, by name.",
    ),
    public_loss: str | None = option(
        "--public-loss", "Of symbols, in place of --guessed: largest drop of the public score, 1% or 0.01."
    ),
    blocks: str | None = option(
        "--blocks", "Of symbols: the column that numbers blocks which are independent of each other."
    ),
    confidence: float | None = option("--confidence", "Of symbols: that of the certificate (0.95)."),
    seed: int | None = option("--seed", "Of symbols: of the split and the search.", at_least=0),
    json: bool = JSON,
) -> None:
    """Make a network from calibration data and say how good it is.

    With --symbols, learn a plan in which each agent sends one of a few symbols, for classes and curved data, and
    certify by counting how often anybody can name a private value.
    """
    from veilnet._core.errors import InvalidRequest
    from veilnet.auditing.fingerprint import network_fingerprint
    from veilnet.calibration.fitting import fit_report
    from veilnet.cli._shared import check_file, print_json
    from veilnet.cli._symbols import fit_symbols, refuse_other
    from veilnet.io._json import plain
    from veilnet.io.fit_reports import report_path, save_fit_report
    from veilnet.io.tables import column_names

    of_symbols = {"--guessed": guessed, "--public-loss": public_loss, "--blocks": blocks, "--seed": seed}
    if symbols:
        known = column_names(data)
        unused = {
            "--time": time, "--stream": stream, "--report": report, "--independent": independent,
            "--no-prior": no_prior, "--no-limits": no_limits, "--no-predictive": no_predictive, "--accept": accept,
        }  # fmt: skip
        refuse_other(unused)
        fit_symbols(
            data, _named(agent, known), _columns(public, known), _columns(private, known), out, guessed=guessed,
            public_loss=public_loss, blocks=blocks, confidence=confidence, seed=seed, json=json,
        )  # fmt: skip
        return
    for name, value in {**of_symbols, "--confidence": confidence}.items():
        if value is not None:
            raise InvalidRequest(f"{name}: it goes with --symbols; leave it out, or add that")
    check_file(out)
    if report is None and out is not None:
        report = report_path(out)
    for file in (out, report):
        if file is not None and file.exists() and not force:
            raise InvalidRequest(f"{file}: exists already; choose another name, or --force to replace it")
    known = column_names(data)
    private, changes = _changes(private, known)
    made = fit_report(
        data,
        agents=_named(agent, known),
        public=_columns(public, known),
        private=_columns(private, known),
        time=time,
        stream=stream,
        missing=missing,  # type: ignore[arg-type]  # fit_report refuses other words
        noise="independent" if independent else "joint",
        prior=not no_prior,
        limits=not no_limits,
        predictive=not no_predictive,
        changes=changes,
    )
    network = made.network.accepting(accept) if accept else made.network
    if out is not None:
        network.save(out)
    if report is not None:
        save_fit_report(report, network_fingerprint(made.network), plain(made.report), list(made.warnings))
    if json:
        found = {"report": made.report, "warnings": made.warnings, "doubts": network.doubts}
        found |= {"log_aucs": network.log_aucs}
        print_json(found | {"written": out})
    else:
        _tell(made.report, network, changes, out)


def _tell(report: CalibrationReport, network: Network, changes: Collection[str], out: Path | None) -> None:
    """What was found, for people; changes: of which parameters somebody said them."""
    from veilnet.cli._shared import tell
    from veilnet.model.doubts import doubt_notes
    from veilnet.model.log_aucs import log_in_words
    from veilnet.model.secret import change_in_words

    tell(str(report))
    tell(f"\n{_LEGEND}")
    for name, secret in network.secrets.items():
        how = "as you said" if name in changes else "the distance of its two values"
        what = change_in_words(secret.change, len(secret.rows), network.unit(name))
        tell(f"\nOf {name} {what} must stay hidden ({how}): plans say how surely it is seen.")
    for name, shown in network.log_aucs.items():
        tell(f"\n{log_in_words(name, shown)}")
    for note in doubt_notes(network.doubts):
        tell(f"\n{note}")
    if out is not None:
        tell(f"\nWrote {out}. Next:\n  veilnet check {out}")


_LEGEND = (
    "How to read it: R² is the part of a reading's variance that the parameters explain, 'held out' the same on "
    "rows that the fit had not seen. 'noise' is what a reading strays by then, 'step' its resolution, and beyond "
    "'credible' a reading counts as the limit. 'skew', 'kurtosis' and 'lag 1' (how alike successive rows are) are "
    "of what is left over, and 0 where the model is right. 'told by public' is what the public parameters alone "
    "tell of a private one, which nothing can hide."
)


def _named(given: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    """``name=column,column`` for each agent."""
    from veilnet._core.errors import InvalidRequest

    agents: dict[str, list[str]] = {}
    for text in given:
        name, equals, columns = text.partition("=")
        if not equals or not name.strip():
            raise InvalidRequest(f"--agent: expected name=column,column (kitchen=T1,RH_1), found {text!r}")
        if name.strip() in agents:
            raise InvalidRequest(f"--agent: {name.strip()!r} is given twice; put all its columns after one =")
        agents[name.strip()] = _split(columns, known)
    return agents


def _changes(
    given: Sequence[str], known: Sequence[str]
) -> tuple[list[str], dict[str, tuple[float | str, str | None]]]:
    """What is private without ``:change=1,lasts=1h`` or ``:classes``, and that by name."""
    from veilnet.calibration.secrets import CLASSES
    from veilnet.cli._shared import amount

    columns: list[str] = []
    changes: dict[str, tuple[float | str, str | None]] = {}
    for text in given:
        stated, _, lasts = text.partition(",lasts=")
        before, said, size = stated.partition(":change=")
        classes = stated.endswith(f":{CLASSES}") and text not in known
        if classes:
            before = stated.removesuffix(f":{CLASSES}")
        columns.append(before if said or classes else text)
        if said or classes:
            name = before.partition("=")[0] if before not in known else before
            changes[name.strip()] = (CLASSES if classes else amount(size, "--private"), lasts or None)
    return columns, changes


def _columns(given: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    """``column,column``, each a parameter of its own, or ``name=column,column``, one parameter of several."""
    from veilnet._core.errors import InvalidRequest

    groups: dict[str, list[str]] = {}
    for text in given:
        name, equals, columns = text.partition("=")
        found = (
            {name.strip(): _split(columns, known)}
            if equals and text not in known
            else {column: [column] for column in _split(text, known)}
        )
        for key, value in found.items():
            if key in groups:
                raise InvalidRequest(f"--public, --private: {key!r} is given twice; leave one out")
            groups[key] = value
    return groups


def _split(text: str, known: Sequence[str]) -> list[str]:
    """Column names between commas; a name that itself has commas may stand alone."""
    return [text] if text in known else [name.strip() for name in text.split(",") if name.strip()]
