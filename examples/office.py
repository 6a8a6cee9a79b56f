"""The office: from a public log to a plan, to messages, to estimates, and what attackers make of them.

    python examples/office.py FOLDER

FOLDER holds ``training.csv`` and ``test2.csv`` of the Occupancy Detection data (L. Candanedo and V. Feldheim, 2016;
UCI Machine Learning Repository, number 357), one row a minute, with a header date,Temperature,Humidity,Light,CO2,
HumidityRatio,Occupancy. The agent *climate* reads temperature and humidity, *desk* light and CO2. How much water is
in the air may be known; whether somebody is there must not. Attackers are trained on the first log and judged on the
second, on readings as they were and on what was sent. Needs scikit-learn.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import veilnet as vn
from veilnet.io.tables import read_columns

AGENTS = {"climate": ["Temperature", "Humidity"], "desk": ["Light", "CO2"]}
PUBLIC, PRIVATE = "HumidityRatio", "Occupancy"


def load(path: Path) -> dict[str, np.ndarray]:
    """The columns of a log."""
    return read_columns(path, [*(name for names in AGENTS.values() for name in names), PUBLIC, PRIVATE])


def readings(log: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """agent -> what it reads, a row per minute."""
    return {agent: np.column_stack([log[name] for name in names]) for agent, names in AGENTS.items()}


def sent_by(plan: vn.Plan, log: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the agents send of a log, with secure noise."""
    return {agent: np.asarray(plan.sanitizers[agent].sanitize(rows)) for agent, rows in readings(log).items()}


def attacked(
    seen: dict[str, np.ndarray], truth: np.ndarray, new: dict[str, np.ndarray], target: np.ndarray
) -> dict[str, float]:
    """How well two attackers tell occupancy from what they see: areas under the curve, 0.5 is guessing."""
    before, after = (np.concatenate(list(rows.values()), axis=1) for rows in (seen, new))
    attackers = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "random forest": RandomForestClassifier(200, min_samples_leaf=20, random_state=0),
    }
    return {
        name: float(roc_auc_score(target, attacker.fit(before, truth).predict_proba(after)[:, 1]))
        for name, attacker in attackers.items()
    }


def named(plan: vn.Plan, first: dict[str, np.ndarray], later: dict[str, np.ndarray]) -> float:
    """Part of later rows in which both readings of *climate* are named by whoever knows which values come often.

    Of all pairs of values that came five times or more in the first log the likeliest is taken that fits the message.
    """
    sanitizer = plan.sanitizers["climate"]
    (weights,) = sanitizer.compression
    often = [np.unique(first[name].round(5), return_counts=True) for name in AGENTS["climate"]]
    values, counts = zip(*((value[count >= 5], count[count >= 5]) for value, count in often), strict=True)
    pairs = np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, 2)
    likely = np.outer(*counts).ravel()
    order = np.argsort(of_pairs := (pairs - sanitizer.offset) @ weights)
    dither = 0.0 if sanitizer.resolution is None else np.abs(weights) @ sanitizer.resolution / 2
    reach = dither + float(np.max(sanitizer.grid if sanitizer.grid is not None else 0.0))
    truth = readings(later)["climate"]
    found = 0
    for row, number in zip(truth, np.ravel(sanitizer.sanitize(truth)), strict=True):
        low, high = np.searchsorted(of_pairs[order], [number - reach, number + reach])
        fitting = order[low:high]
        if fitting.size:
            found += bool(np.abs(pairs[fitting[np.argmax(likely[fitting])]] - row).max() < 1e-4)
    return found / len(truth)


def main(folder: Path) -> None:
    """Print all figures."""
    first, later = load(folder / "training.csv"), load(folder / "test2.csv")
    # one row at a time: the gate and the watch for drift are for single rows, and so are these attackers
    made = vn.fit_report(folder / "training.csv", AGENTS, PUBLIC, PRIVATE, time="date", stream=False)
    report = made.report
    worth = f"worth {report.effective_rows:.0f} independent ones"
    print(f"{report.rows} rows to fit, {worth}; {len(later[PUBLIC])} later ones")
    plan = vn.design(made.network)
    print(plan)
    messages = sent_by(plan, later)
    raw = attacked(readings(first), first[PRIVATE], readings(later), later[PRIVATE])
    sent = attacked(sent_by(plan, first), first[PRIVATE], messages, later[PRIVATE])
    for words, areas in (("raw", raw), ("sent", sent)):
        shown = ", ".join(f"{name} {area:.3f}" for name, area in areas.items())
        print(f"AUC for occupancy, {words}: {shown}")
    exact = vn.design(made.network.replace(resolution=dict.fromkeys(AGENTS, 0.0)))
    shares = [named(each, first, later) for each in (exact, plan)]
    print("climate's readings named: {:.1%} of the rows without dither, {:.1%} as sent".format(*shares))
    truth = later[PUBLIC]
    figures = {"rows_fitted": f"{report.rows:,}", "rows_later": f"{len(truth):,}"}
    for words, areas in (("raw", raw), ("sent", sent)):
        for name, area in areas.items():
            figures[f"{words}_{name.split()[1]}"] = f"{area:.3f}" if words == "raw" else f"{area:.2f}"
    # an attacker who is wrong more often than right is turned around by whoever notices
    figures["sent_best"] = f"{max(max(area, 1 - area) for area in sent.values()):.2f}"
    figures["doubts"] = str(len(made.network.doubts))
    within = made.network.log_aucs[PRIVATE]["free"]
    figures |= {"log_auc": f"{within.auc:.2f}", "log_promised": f"{within.model:.2f}"}
    for words, fusion in (("all messages", vn.Fusion(plan)), ("with the gate", vn.Fusion(plan, gate=1e-6))):
        estimate = fusion.estimate(messages)
        errors = estimate.public[:, 0] - truth
        explained = 1 - np.mean(errors**2) / np.var(truth)
        share = np.mean([bool(names) for names in estimate.contradicting])
        print(
            f"{PUBLIC}, {words}: R² {explained:.3f}; error {np.sqrt(np.mean(errors**2)):.2e}, stated "
            f"{np.sqrt(np.mean(estimate.deviation[:, 0] ** 2)):.2e}; rows that contradict the model: {share:.2%}"
        )
        if words == "all messages":
            figures["r2"] = f"{explained:.3f}"
    drift = vn.Drift(vn.Fusion(plan))
    told: set[tuple[str, str]] = set()
    for start in range(0, len(truth), 1024):
        for change in drift.look({agent: rows[start : start + 1024] for agent, rows in messages.items()}):
            if (change.kind, change.agent) not in told:
                told.add((change.kind, change.agent))
                print(f"drift, from minute {change.since}: {change}")
    if not told:
        print("drift: no alarm")
    for key, value in figures.items():
        print(f"figure {key}: {value}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
