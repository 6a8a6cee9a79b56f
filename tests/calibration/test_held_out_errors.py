"""What the centre states covers rows that the fit had not seen, and goes with the network into every file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet.calibration.held_out_errors import beyond_the_model
from veilnet.io.network_schema import network_difference
from veilnet.model.fitted import HeldOut

pytestmark = pytest.mark.filterwarnings("ignore::veilnet.calibration.fitting.DoubtfulModel")

Array = np.ndarray[Any, np.dtype[np.float64]]
AGENTS = {"kitchen": ["T_k", "CO2_k"], "hall": ["T_h", "CO2_h"]}
SHOWS = np.array([[0.6, 0.3], [0.1, 1.0], [0.5, -0.4], [0.2, 0.9]])


def slow(rows: int, count: int, memory: float, rng: np.random.Generator) -> Array:
    found = rng.standard_normal((rows, count))
    for row in range(1, rows):
        found[row] = memory * found[row - 1] + np.sqrt(1 - memory**2) * found[row]
    return found


def log(rows: int, seed: int, drift: float, memory: float = 0.0) -> dict[str, Array]:
    """u and g of variance one, whose noise may be slow; a common offset, ``drift`` times what u = 1 shows, comes and
    goes over 600 rows, unseen by anybody.
    """
    rng = np.random.default_rng(seed)
    x = slow(rows, 2, memory, rng)
    readings = x @ SHOWS.T + 0.5 * slow(rows, 4, memory / 2, rng)
    readings += drift * slow(rows, 1, 1 - 1 / 600, rng) * SHOWS[:, 0]
    names = [name for named in AGENTS.values() for name in named]
    return {"u": x[:, 0], "g": x[:, 1], "date": 60.0 * np.arange(rows)} | dict(
        zip(names, readings.T, strict=True)
    )


def covered(plan: vn.Plan, table: dict[str, Array]) -> tuple[float, float]:
    """Part of the rows in which the truth is within 1.96 stated errors, and of the model alone."""
    sent = {}
    for agent, names in AGENTS.items():
        sanitizer = plan.sanitizers[agent]
        running = sanitizer if sanitizer.memory is None else sanitizer.stream()
        sent[agent] = running.sanitize(np.column_stack([table[name] for name in names]))
    found = vn.Fusion(plan).estimate(sent)
    away = np.abs(found.public[:, 0] - table["u"])
    return tuple(
        float(np.mean(away < 1.96 * each[:, 0])) for each in (found.deviation, found.model_deviation)
    )  # type: ignore[return-value]


@pytest.mark.parametrize(
    "law",
    [
        lambda rng, shape: 1.0 / rng.gamma(4.0, 1 / 4.0, shape),
        lambda rng, shape: rng.gamma(2.0, 1 / 2.0, shape),
        lambda rng, shape: np.exp(0.7 * rng.standard_normal(shape)),
        lambda _rng, shape: np.ones(shape),
    ],
)
@pytest.mark.parametrize("blocks", [5, 20])
def test_blocks_whose_variances_differ_are_covered(law: Any, blocks: int) -> None:
    """The oracle is a plain draw: 4,000 logs of so many blocks, and one more block whose error is drawn."""
    rng = np.random.default_rng(29)
    variances = law(rng, (4000, blocks + 1))
    stated = np.full((4000, blocks), 0.5)
    beyond = np.array(
        [beyond_the_model(s[:blocks, None], v[:, None])[0] for s, v in zip(variances, stated, strict=True)]
    )
    errors = rng.standard_normal(4000) * np.sqrt(variances[:, -1])
    part = np.mean(np.abs(errors) < 1.96 * np.sqrt(0.5 + beyond**2))
    assert 0.935 < part < 0.997  # 4 deviations of 4,000 draws below 95 %


def test_where_the_model_states_enough_nothing_is_added() -> None:
    assert beyond_the_model(np.full((20, 1), 0.9), np.ones((20, 1)))[0] == 0.0


@pytest.mark.parametrize("seed", [1, 2])
def test_a_log_that_drifts_is_covered(seed: int) -> None:
    """Rows: the offset comes and goes in the later rows as it did in those of the fit."""
    whole = log(9000, seed, drift=0.6)
    fit, later = (
        {name: each[rows] for name, each in whole.items()} for rows in (slice(6000), slice(6000, None))
    )
    plan = vn.design(vn.fit(fit, AGENTS, ["u"], ["g"]))
    stated, alone = covered(plan, later)
    assert 0.90 < stated < 0.99
    assert alone <= stated


def test_a_stream_states_what_it_was_off_on_blocks_and_a_steady_log_hardly_more_than_the_model() -> None:
    whole = log(6000, 3, drift=0.0, memory=0.9)
    fit, later = (
        {name: each[rows] for name, each in whole.items()} for rows in (slice(4000), slice(4000, None))
    )
    plan = vn.design(vn.fit(fit, AGENTS, ["u"], ["g"], time="date", stream=True))
    assert plan.network.is_stream
    stated, alone = covered(plan, later)
    assert 0.92 < alone <= stated < 0.99


def test_what_was_held_out_is_in_files_estimates_and_words(tmp_path: Path) -> None:
    table = log(3000, 4, drift=1.0)
    network = vn.fit(table, AGENTS, ["u"], ["g"])
    held = network.held_out["u"]
    assert held.beyond > 0
    assert (held.lowest, held.highest) == (np.min(table["u"]), np.max(table["u"]))
    network.save(tmp_path / "house.toml")
    network.save(tmp_path / "house.npz")
    for name in ("house.toml", "house.npz"):
        again = vn.Network.load(tmp_path / name)
        assert again.held_out == network.held_out
        assert network_difference(again, network) == ""
    plan = vn.design(network)
    plan.save(tmp_path / "plan")
    fusion = vn.Fusion.load(tmp_path / "plan" / "center.json")
    messages = {agent: np.zeros(count) for agent, count in fusion.sent.items()}
    found = fusion.estimate(messages)
    assert found.deviation[0] == pytest.approx(np.hypot(found.model_deviation[0], held.beyond))
    assert found.covariance[0, 0] == pytest.approx(found.deviation[0] ** 2)
    assert not found.outside[0]
    far = fusion.estimate({agent: np.full(each.shape, 50.0) for agent, each in messages.items()})
    assert far.outside[0]
    loud = vn.design(network.replace(held_out={"u": replace(held, beyond=3.0)}))
    whole = np.hypot(3.0, found.model_deviation[0])
    assert f"±{whole:.2g} (model: ±{found.model_deviation[0]:.2g}" in str(loud)
    alone = vn.fit(table, AGENTS, ["u"], ["g"], predictive=False)
    assert alone.held_out == {}
    assert "held out of the fit" not in str(vn.design(alone))


def test_errors_without_a_message_stay_infinite() -> None:
    network = vn.fit(log(3000, 4, drift=1.0), AGENTS, ["u"], ["g"], prior=False)
    found = vn.Fusion(vn.design(network)).estimate({})
    assert np.isinf(found.deviation[0])
    assert np.isinf(found.covariance[0, 0])
    assert not found.outside[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"nobody": HeldOut(1.0, 0.0, 1.0)},
        {"u": HeldOut(-1.0, 0.0, 1.0)},
        {"u": HeldOut(1.0, 2.0, 1.0)},
        {"u": 3.0},
        7,
    ],
)
def test_nonsense_is_refused(wrong: Any) -> None:
    network = vn.Network({"a": np.eye(2)}, 1.0, {"u": [1, 0]}, {"g": [0, 1]})
    with pytest.raises(vn.InvalidNetwork, match="held_out"):
        network.replace(held_out=wrong)
    good = HeldOut(1.0, 0.0, 1.0)
    assert network.replace(held_out={"u": good}).held_out == {"u": good}
    with pytest.raises(vn.InvalidNetwork, match="held_out"):
        network.replace(held_out={"u": replace(good, beyond=np.nan)})
