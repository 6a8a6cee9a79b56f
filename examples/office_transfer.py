"""The office, attacked by somebody who has a log of it: occupancy told apart by who learned from another week.

    python examples/office_transfer.py FOLDER

FOLDER holds ``training.csv`` and ``test2.csv`` as for ``office.py``. Logistic regression and a random forest learn
from what the agents would have sent of the first log, beside the truth, with and without the messages of half an
hour. They are judged on the second log as the audit judges: AUC against what the plan allows, rows that depend on one
another, 1 % of false alarms for all tests of a plan together. Printed is the second table of the audit page. Needs
scikit-learn, and a minute.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from office import AGENTS, PRIVATE, PUBLIC, load, readings
from office_audit import plans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import veilnet as vn
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.class_rows import class_row
from veilnet.auditing.attack.error_rows import Judged
from veilnet.auditing.report import IN_WORDS, Row
from veilnet.calibration.classes import classes_of
from veilnet.calibration.stretches import remembered, stretches_of

LAGS = tuple(range(1, 31, 3))
FALSE_ALARM = 0.01

Log = dict[str, np.ndarray]


def attackers() -> dict[str, object]:
    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "random forest": RandomForestClassifier(60, min_samples_leaf=20, random_state=0),
    }


def seen_by(plan: vn.Plan | None, log: Log, seed: int) -> np.ndarray:
    """Messages (T, numbers), or raw readings where there is no plan; noise of a seed, so that it can be repeated."""
    rng = np.random.default_rng(seed)
    own = readings(log)
    if plan is not None:
        own = {a: np.asarray(plan.sanitizers[a].sanitize(rows, rng=rng)) for a, rows in own.items()}
    return np.concatenate(list(own.values()), axis=1)


def judged(network: vn.Network, plan: vn.Plan, first: Log, later: Log) -> list[Row]:
    """A row for each attacker, without and with memory."""
    promises = Promises(network, plan.sanitizers)
    found = []
    for lags in ((), LAGS):
        views = [
            [remembered(seen_by(each, log, place), np.arange(len(log[PRIVATE])), lags)
             for place, log in enumerate((first, later))]
            for each in (plan, None)
        ]  # fmt: skip
        rows = views[0][1][1]
        truth = later[PRIVATE][rows].astype(float)[:, None]
        classes = classes_of(truth)
        assert classes is not None
        for label in attackers():
            sent, raw = (
                attackers()[label].fit(known, first[PRIVATE][taken]).predict_proba(new)  # type: ignore[attr-defined]
                for (known, taken), (new, _) in views
            )
            about = Judged("another week", label, PRIVATE, len(lags), network)
            stretches = stretches_of(len(rows), max(lags, default=0))
            found.append(class_row(about, classes, truth, sent, raw, stretches, promises, FALSE_ALARM / 4))
    return found


def main(folder: Path) -> None:
    """Print the table."""
    first, later = load(folder / "training.csv"), load(folder / "test2.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vn.DoubtfulModel)
        network = vn.fit(first, AGENTS, PUBLIC, PRIVATE)
    print("| plan | attacker | raw | promised | sent | p-value | tested at | verdict |\n" + "|---" * 8 + "|")
    for name, plan in plans(network).items():
        for row in judged(network, plan, first, later):
            cells = [name, row.what, *(row.shown[each] for each in ("raw", "promised", "sent"))]
            cells += [f"{row.figures['p-value']:.2g}", f"{row.figures['tested at']:.2g}"]
            print(f"| {' | '.join([*cells, IN_WORDS.get(row.verdict, row.verdict)])} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
