"""``veilnet fit``: a network from a table of calibration data."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet._core.errors import InvalidRequest
from veilnet.cli._command_line import JSON, PLOT, VERBOSE, argument, option
from veilnet.cli._shared import amount, check_file, check_plot, print_json, tell, tell_next, write_plot
from veilnet.model.doubts import doubt_notes

if TYPE_CHECKING:
    from veilnet.calibration.report import CalibrationReport
    from veilnet.model.network import Network

_PRIVATE = option(
    "--private",
    "Columns that must stay private, likewise. people:change=1 names the change to hide, "
    "people:change=1,lasts=1h for how long; for a two-valued column it is the distance of the values. "
    "activity:classes: any change of class.",
    required=True,
)

_DATA = argument("Table with column names in the first line: .csv, .csv.gz, .jsonl, Parquet, Feather, Excel.")
_STREAM = option(
    "--stream/--rows",
    "Model a time series, or independent rows. Default: whichever predicts held-out rows better.",
)
_REPORT = option("--report", "JSON file for the report; house.report.json by default with --out house.toml.")
_MISSING = option("--missing", "Rows with missing values: refuse the table, or drop them.", default="refuse")
_NO_PREDICTIVE = option(
    "--no-predictive", "Use the residual variance as noise, without the allowance for sampling error."
)
_ACCEPT = option("--accept", "Doubt to accept, by name (repeat); the network records it.")
_SYMBOLS = option("--symbols", "Learn a plan of symbols instead of a network; --out is its folder.")
_GUESSED = option(
    "--guessed",
    "With --symbols: largest fraction of rows in which a private class may be guessed, 0.2, or person=0.2 "
    "(repeat); for a number its smallest error, by name.",
)
_PUBLIC_LOSS = option(
    "--public-loss", "With --symbols, instead of --guessed: largest drop of the public score, 1% or 0.01."
)
_BLOCKS = option("--blocks", "With --symbols: column that labels independent blocks.")

_TIME = option("--time", "Column of timestamps: sorts rows, finds gaps.")
_GROUP = option(
    "--group",
    "Column of groups (person, session, day). Only whole groups count as independent.",
)
_AGENT = option(
    "--agent",
    "What an agent reads: kitchen=T1,RH_1, or torso=torso_* for a prefix. Once per agent.",
    required=True,
)
_PUBLIC = option("--public", "Columns that may be known: T_out, or climate=T_out,RH_out.", required=True)
_OUT = option("--out", "Network file to write (.toml, .json, .npz).")


def command(
    data: Path = _DATA,
    agent: list[str] = _AGENT,
    public: list[str] = _PUBLIC,
    private: list[str] = _PRIVATE,
    out: Path | None = _OUT,
    time: str | None = _TIME,
    group: str | None = _GROUP,
    stream: bool | None = _STREAM,
    report: Path | None = _REPORT,
    missing: str = _MISSING,
    independent: bool = option("--independent", "Agents share no noise."),
    no_prior: bool = option("--no-prior", "The centre has no prior on x."),
    no_limits: bool = option("--no-limits", "Propose no limits: agents send any reading."),
    no_predictive: bool = _NO_PREDICTIVE,
    accept: list[str] | None = _ACCEPT,
    force: bool = option("--force", "Replace the file of --out."),
    plot: Path | None = PLOT,
    verbose: bool = VERBOSE,
    symbols: bool = _SYMBOLS,
    guessed: list[str] | None = _GUESSED,
    public_loss: str | None = _PUBLIC_LOSS,
    blocks: str | None = _BLOCKS,
    window: int | None = option("--window", "With --symbols: rows per symbol.", at_least=1),
    confidence: float | None = option("--confidence", "With --symbols: confidence (default 0.95)."),
    seed: int | None = option("--seed", "With --symbols: seed of the split and the search.", at_least=0),
    json: bool = JSON,
) -> None:
    """Fit a network to calibration data and report how well it fits.

    With --symbols, learn a plan in which each agent sends one of a few symbols, for classes and nonlinear data. Its
    certificate bounds, by counting, how often anybody can guess a private value.
    """
    from veilnet.calibration.fitting import fit_report
    from veilnet.cli._symbols import fit_symbols, refuse_other
    from veilnet.io._json import plain
    from veilnet.io.fit_reports import save_fit_report
    from veilnet.io.tables import column_names
    from veilnet.plans.fingerprint import network_fingerprint

    of_symbols: dict[str, Any] = {
        "guessed": guessed, "public_loss": public_loss, "window": window, "blocks": blocks, "confidence": confidence,
        "seed": seed,
    }  # fmt: skip
    known = column_names(data)
    agents, may_be_known = _named(agent, known), _columns(public, known)
    if symbols:
        unused = {
            "--time": time, "--group": group, "--stream": stream, "--report": report, "--independent": independent,
            "--no-prior": no_prior, "--no-limits": no_limits, "--no-predictive": no_predictive, "--accept": accept,
            "--plot": plot,
        }  # fmt: skip
        refuse_other(unused)
        fit_symbols(data, agents, may_be_known, _columns(private, known), out, of_symbols, json=json)
        return
    for name in (name.replace("_", "-") for name, value in of_symbols.items() if value is not None):
        raise InvalidRequest(f"--{name}: it goes with --symbols; leave it out, or add that")
    report = _report_file(out, report, plot, force=force)
    private, changes = _changes(private, known)
    made = fit_report(
        data,
        agents=agents,
        public=may_be_known,
        private=_columns(private, known),
        time=time,
        group=group,
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
    write_plot(plot, "residuals", made.residuals)
    if json:
        found = {"report": made.report, "warnings": made.warnings, "doubts": network.doubts}
        print_json(found | {"log_aucs": network.log_aucs, "written": out})
    else:
        _tell(made.report, network, changes, out, verbose=verbose)


def _report_file(out: Path | None, report: Path | None, plot: Path | None, *, force: bool) -> Path | None:
    """Where the report goes, once it is known that neither file is in the way."""
    from veilnet.io.fit_reports import report_path

    check_file(out)
    check_plot(plot)
    if report is None and out is not None:
        report = report_path(out)
    for file in (out, report):
        if file is not None and file.exists() and not force:
            raise InvalidRequest(f"{file}: exists already; choose another name, or --force to replace it")
    return report


def _tell(
    report: CalibrationReport, network: Network, changes: Collection[str], out: Path | None, *, verbose: bool
) -> None:
    """What was found, for people; changes: of which parameters somebody said them."""
    from veilnet.model.fitted import log_in_words
    from veilnet.model.secret import change_in_words

    said = [str(report), *([report.details(), _LEGEND] if verbose else [])]
    for name, secret in network.secrets.items():
        how = "as you said" if name in changes else "the distance of its two values"
        what = change_in_words(secret.change, len(secret.rows), network.unit(name))
        said.append(f"{name}: {what} must stay hidden ({how}); plans state how well it can be detected.")
    said += [log_in_words(name, shown) for name, shown in network.log_aucs.items()]
    said += [*doubt_notes(network.doubts), *([] if out is None else [f"Wrote {out}."])]
    tell("\n\n".join(said) if verbose else "\n".join(said))
    if out is not None:
        tell_next("check", out)


_LEGEND = (
    "How to read it: R² is the fraction of a reading's variance that the parameters explain, 'held out' the same on "
    "held-out rows. 'noise' is the standard deviation of the residuals, 'step' the resolution. Readings outside "
    "'credible' are clipped. 'skew', 'kurtosis' and 'lag 1' (autocorrelation) describe the residuals, and are 0 "
    "where the model is right. 'from public' is the fraction of a private parameter's variance that the public ones "
    "explain, which nothing can hide."
)


def _named(given: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    """``name=column,column`` for each agent."""
    agents: dict[str, list[str]] = {}
    for text in given:
        before, equals, columns = text.partition("=")
        name = before.strip()
        if not equals or not name:
            raise InvalidRequest(f"--agent: expected name=column,column (kitchen=T1,RH_1), found {text!r}")
        if name in agents:
            raise InvalidRequest(f"--agent: {name!r} is given twice; put all its columns after one =")
        agents[name] = _split(columns, known)
    return agents


def _changes(
    given: Sequence[str], known: Sequence[str]
) -> tuple[list[str], dict[str, tuple[float | str, str | None]]]:
    """What is private without ``:change=1,lasts=1h`` or ``:classes``, and that by name."""
    from veilnet.calibration.secrets import CLASSES

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
    groups: dict[str, list[str]] = {}
    for text in given:
        name, equals, columns = text.partition("=")
        found = {column: [column] for column in _split(text, known)}
        if equals and text not in known:
            found = {name.strip(): _split(columns, known)}
        for key, value in found.items():
            if key in groups:
                raise InvalidRequest(f"--public, --private: {key!r} is given twice; leave one out")
            groups[key] = value
    return groups


def _split(text: str, known: Sequence[str]) -> list[str]:
    """Column names between commas, ``torso_*`` all that begin so; a name that itself has commas may stand alone."""
    if text in known:
        return [text]
    given = [name.strip() for name in text.split(",") if name.strip()]
    return [
        column for name in given for column in (name not in known and fnmatch.filter(known, name)) or [name]
    ]
