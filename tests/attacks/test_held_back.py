"""What limits, the reach of a grid, and rows that are held back told of readings: each attack as it was made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.streams import random_stream
from veilnet import cli
from veilnet.agent.randomness import noise_source
from veilnet.agent.recipe import reach
from veilnet.agent.release import release_valid
from veilnet.io.sanitizer_files import save_sanitizer
from veilnet.model.readings import MOST_BEYOND
from veilnet.plans.verification import verify
from veilnet.review.inspection import inspect
from veilnet.review.order import what_more

CO2 = 787.3


def home(**options: object) -> vn.Network:
    """CO2 of a room, which people raise, and its temperature."""
    return vn.Network(
        observe={"room": [[1.0, 60.0], [0.0, 1.0]], "hall": [[1.0, 0.0]]},
        noise={"room": [400.0, 0.2], "hall": [100.0]},
        public={"air": [1.0, 0.0]},
        private={"people": [0.0, 1.0]},
        prior=vn.Prior(np.diag([40.0**2, 1.5**2]), mean=[500.0, 2.0]),
        **options,  # type: ignore[arg-type]
    )


def test_a_reading_is_not_found_by_moving_the_reach_of_a_grid() -> None:
    """Fourteen signed updates, none of which tells more by its rows and noise, bisected a reading to 0.3."""
    agreed = vn.Sanitizer([[1.0]], [100.0**2], grid=2.0**-26, agent="room", names=("CO2",))
    low, high = 600.0, 2000.0
    taken_up = 0
    for _ in range(14):
        middle = (low + high) / 2
        scale = 2.0**13 / middle  # of the rows and, with them, the noise: the grid then reaches to the middle
        updated = agreed.replace(compression=[[scale]], noise=[(100.0 * scale) ** 2])
        if what_more(updated, agreed):
            continue
        taken_up += 1
        sent = release_valid(updated.recipe, np.array([[CO2]]), noise_source(1)).valid[0]
        low, high = (low, middle) if sent else (middle, high)
    assert (taken_up, low, high) == (0, 600.0, 2000.0)


@pytest.mark.parametrize("finer", [2.0, 1024.0])
def test_a_finer_grid_tells_more_however_little_finer(finer: float) -> None:
    agreed = vn.Sanitizer([[1.0]], [100.0**2], grid=2.0**-6, agent="room", names=("CO2",))
    assert what_more(agreed.replace(grid=2.0**-6 / finer), agreed)


def test_rows_are_not_missing_because_of_a_limit() -> None:
    """Limits at the median of CO2 told "more than one person" by which rows were missing: an AUC of 0.949."""
    rng = np.random.default_rng(4)
    people = rng.poisson(1.5, 4000)
    readings = np.stack([450.0 + 180.0 * people + 40.0 * rng.standard_normal(4000), 21.0 + people], axis=1)
    median = float(np.median(readings[:, 0]))
    agent = vn.Sanitizer(
        [[1.0, 5.0]], [300.0**2], grid=2.0**-4, limits=([0.0, 0.0], [median, 60.0]), agent="room"
    )
    assert release_valid(agent.recipe, readings, noise_source(1)).valid.all()


def narrow() -> vn.Network:
    """Limits at the median of CO2, within what it does."""
    return home(limits={"room": ([0.0, -50.0], [620.0, 50.0])}, reading_names={"room": ["CO2", "T"]})


def test_check_says_it_and_design_refuses_limits_within_what_readings_do() -> None:
    network = narrow()
    said = "\n".join(vn.check(network).notes())
    assert "1 row in 2 at room" in said
    with pytest.raises(vn.InvalidNetwork, match=r"limits: .* 1 row in 2 at room, more than 1 in 1,000"):
        vn.design(network)


def test_the_probability_is_that_of_the_model() -> None:
    """Against readings drawn by the model: false alarm 1e-6."""
    network = home(limits={"room": ([300.0, -5.0], [950.0, 8.0])})
    drawn = np.random.default_rng(5)
    count = 400_000
    x = drawn.multivariate_normal(network.prior.mean, network.prior.covariance, count)
    readings = x @ network.observe["room"].T + drawn.standard_normal((count, 2)) * np.sqrt([400.0, 0.2])
    mean, deviation = (each[:2] for each in network.usual)
    np.testing.assert_allclose(readings.mean(axis=0), mean, atol=5 * np.max(deviation) / np.sqrt(count))
    np.testing.assert_allclose(readings.std(axis=0), deviation, rtol=5 / np.sqrt(2 * count))
    agent = vn.Sanitizer(np.eye(2), limits=network.limits["room"], usual=(mean, deviation))
    often = agent.recipe.beyond(readings).mean(axis=0)
    np.testing.assert_array_less(np.abs(often - agent.beyond), 5 * np.sqrt(agent.beyond / count))
    assert np.all(agent.beyond > 1e-5)


def test_inspect_alarms_and_verify_fails_where_limits_are_within_what_readings_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = vn.design(home(limits={"room": ([-2000.0, -50.0], [4000.0, 50.0])}))
    plan.save(tmp_path / "plan")
    room = vn.Sanitizer.load(tmp_path / "plan/room.json")
    honest = inspect(room)
    assert honest.ok
    assert [each.lowest for each in honest.reaches] == [-2000.0, -50.0]
    assert all(each.beyond is not None and each.beyond < 1e-12 for each in honest.reaches)
    save_sanitizer(room.replace(limits=([-2000.0, -50.0], [620.0, 50.0])), tmp_path / "room.json", "f" * 32)
    capsys.readouterr()
    assert cli.run(["inspect", str(tmp_path / "room.json"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["reaches"][0]["beyond"] == pytest.approx(0.5, abs=0.01)
    assert "would be clipped" in told["alarms"][0]
    checks = {check.what: check for check in verify(tmp_path / "plan", narrow())}
    assert not checks["readings are within their limits"].ok


def test_without_a_prior_it_is_said_that_nothing_is_known() -> None:
    network = home(limits={"room": ([0.0, -50.0], [620.0, 50.0])}).replace(prior=None)
    assert "without a prior, how often cannot be computed" in "\n".join(vn.check(network).notes())
    plan = vn.design(network)
    assert "without a prior, how often cannot be computed" in "\n".join(plan.notes())
    found = inspect(plan.sanitizers["room"])
    assert all(each.beyond is None for each in found.reaches)
    rows = [line for line in str(found).splitlines() if line.startswith("reading ") and " to " in line]
    assert len(rows) == 2
    assert all(
        line.count("not known") == 2 for line in rows
    )  # what it usually is, and how often it is beyond


@pytest.mark.parametrize(
    ("seed", "loss"),
    [(0, None), (3, None), *(pytest.param(seed, 0.05, marks=pytest.mark.long) for seed in (0, 3))],
)
def test_a_design_reaches_eight_deviations_of_what_it_may_read(seed: int, loss: float | None) -> None:
    starts = {} if loss is None else {"starts": 1}  # how good it is, is not the point
    plan = vn.design(random_stream(seed, coloured=bool(seed % 2)), utility_loss=loss, **starts)
    for agent, sanitizer in plan.sanitizers.items():
        mean, deviation = sanitizer.usual
        low, high = sanitizer.reach
        assert np.all(low <= mean - 8 * deviation), agent
        assert np.all(high >= mean + 8 * deviation), agent
        assert np.sum(sanitizer.beyond) < 1e-12 < MOST_BEYOND


def test_a_grid_that_does_not_reach_is_coarser_or_refused() -> None:
    """A mean far from the offset uses up the reach, as a wide prior does."""
    wide = home().replace(prior=vn.Prior(np.diag([1e24, 1.0])))
    with pytest.raises(
        vn.InvalidNetwork, match=r"prior: by the model, readings of 'hall' go .* times as far"
    ):
        vn.design(wide)
    assert vn.design(wide.replace(limits={"room": (-1e4, 1e4), "hall": (-1e4, 1e4)}, prior=None))


def test_the_reach_of_a_stack_is_that_of_each() -> None:
    from helpers.memories import random_memory

    rng = np.random.default_rng(6)
    memories = [random_memory(rng, 2, 3, radius) for radius in (0.3, 0.9, 0.99)]
    rows = rng.standard_normal((3, 2, 5))
    steps = 2.0 ** rng.integers(-20, -10, (3, 2))

    class Stack:
        transition = np.stack([memory.transition for memory in memories])
        gain = np.stack([memory.gain for memory in memories])

    together = reach(rows, steps, Stack())  # type: ignore[arg-type]
    for place, memory in enumerate(memories):
        alone = reach(rows[place], steps[place], memory)
        assert np.all(together[place] <= alone * (1 + 1e-9))
        np.testing.assert_allclose(together[place], alone, rtol=1e-5)
