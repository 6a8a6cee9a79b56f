"""A target of AUC 0.6: on rows of the model no detector that learns tells a secret's two values apart any better."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from veilnet._core.types import Array
from veilnet.auditing.attack.detection import knows_after, pairs_of
from veilnet.calibration.classes import Classes, measured
from veilnet.calibration.classifiers import CLASSIFIERS, learn_classes
from veilnet.calibration.stretches import stretches_of, windowed

pytestmark = pytest.mark.slow
pytest.importorskip("sklearn")

TARGET = 0.6
CHANCE = 1e-3  # of an alarm for each detector, if it sees as much as was allowed


def network() -> vn.Network:
    """Temperature may be known, presence may not; three rooms read both, with noise that two of them share."""
    rng = np.random.default_rng(4)
    observe = {room: rng.normal(size=(3, 3)) for room in ("hall", "office", "kitchen")}
    shared = rng.normal(size=(9, 2))
    return vn.Network(
        observe=observe,
        noise=0.3 * np.eye(9) + 0.1 * shared @ shared.T,
        public={"temperature": [1.0, 0.2, 0.5]},
        private={"presence": vn.Secret([0, 1, 0], change=1.0)},
        prior=vn.Prior(covariance=np.diag([4.0, 1.0, 2.0]), mean=[20.0, 0.5, 0.0]),
        resolution=0,
    )


def drawn(plan: vn.Plan, rows: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """(which rows have the change, raw readings, what is sent), everything but presence as the prior says."""
    given = plan.network
    assert given.prior is not None
    covariance = given.prior.covariance
    assert covariance is not None
    present = rng.integers(0, 2, rows)
    x = given.prior.mean + rng.normal(size=(rows, 3)) * np.sqrt(np.diag(covariance))
    x[:, 1] = present
    noise = rng.multivariate_normal(np.zeros(given.N), given.sensor_noise.matrix(), size=rows)
    readings = x @ given.H.T + given.offset + noise
    sent = [
        np.asarray(plan.sanitizers[agent].sanitize(readings[:, given.blocks.rows(k)], rng=rng))
        for k, agent in enumerate(given.agents)
    ]
    return present, readings, np.concatenate(sent, axis=1)


@pytest.mark.parametrize("rows", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_no_learned_detector_sees_more_than_the_target(rows: int) -> None:
    plan = vn.design(network(), privacy={"presence": vn.Auc(TARGET)})
    assert plan.detectability["presence"].auc == pytest.approx(TARGET, abs=1e-6)
    present, readings, sent = drawn(plan, rows, np.random.default_rng(11))
    classes, stretches = Classes(np.array([0.0, 1.0]), present), stretches_of(rows, 5)
    together = []
    for seen in (sent, windowed(sent, np.zeros(rows, dtype=np.intp), (5,))):
        for name in CLASSIFIERS:
            scores = learn_classes(name, seen, classes, stretches)
            auc = measured(classes, scores, stretches)["AUC"]
            assert auc.chance_above(TARGET) > CHANCE, f"{name} reaches {auc.value:.4f} ± {auc.error:.4f}"
            assert auc.value > 0.55  # and it does see what was allowed to be seen
            together.append(scores[:, 1])
    assert knows_after(together, pairs_of(present == 1, stretches, rows), TARGET, CHANCE) is None
    raw = learn_classes("logistic regression", readings, classes, stretches)
    assert measured(classes, raw, stretches)["AUC"].value > TARGET + 0.2
    assert knows_after([raw[:, 1]], pairs_of(present == 1, stretches, rows), TARGET, CHANCE) is not None
