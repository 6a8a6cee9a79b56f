"""Attackers on data: planted leaks are found, sound promises are not called broken, weak evidence is called so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.said import says
from veilnet.auditing import Audit, Row
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.error_rows import Judged, error_row
from veilnet.auditing.attack.held_out import Samples
from veilnet.auditing.attack.single_rows import model_row
from veilnet.auditing.attack.verdicts import Evidence, verdict_on
from veilnet.cli import run
from veilnet.plans.plan import Plan, make_plan

pytestmark = pytest.mark.slow
pytest.importorskip("sklearn")

Array = np.ndarray[Any, np.dtype[np.float64]]
NOISE = 0.2


def network(correlation: float = 0.0) -> vn.Network:
    """u may be known, g may not; one agent reads both."""
    prior = vn.Prior(covariance=[[1.0, correlation], [correlation, 1.0]], mean=[0.0, 0.0])
    units = {"u": "°C", "g": "%"}
    return vn.Network({"a": np.eye(2)}, NOISE, {"u": [1, 0]}, {"g": [0, 1]}, prior, units=units)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """It sends u's reading alone, and u says nothing about g: the promise is that g can only be guessed."""
    found = vn.design(network())
    assert found.privacy["g"] == pytest.approx(vn.privacy_limit(network())["g"])
    return found


def slow(rows: int, count: int, memory: float, rng: np.random.Generator) -> Array:
    """(rows, count) normal with variance one, each row like the one before."""
    drawn = rng.standard_normal((rows, count))
    drawn[1:] *= np.sqrt(1 - memory**2)
    for row in range(1, rows):
        drawn[row] += memory * drawn[row - 1]
    return drawn


def log(rows: int, seed: int, memory: float = 0.0, **changes: Any) -> dict[str, Array]:
    """Readings beside the truth; u, g or the noise may be given."""
    rng = np.random.default_rng(seed)
    white = slow(rows, 4, memory, rng)
    u, g = changes.get("u", white[:, 0]), changes.get("g", white[:, 1])
    noise = changes.get("noise", np.sqrt(NOISE) * white[:, 2:])
    x = np.column_stack([u, g])
    return {"a": x + noise, "x": x}


def audit(plan: Plan, data: Any, attackers: Any = ("ridge",), **options: Any) -> Audit:
    trials = vn.Trials(attackers=attackers)
    return vn.audit(plan, data, only=["attackers"], trials=trials, **options)


def by_name(report: Audit) -> dict[str, Row]:
    return {row.what: row for row in report.rows}


# --- what every row shows


def test_rows_show_guessing_raw_promised_and_sent_in_units_and_as_parts(plan: Plan) -> None:
    report = audit(plan, log(3000, 0))
    row = by_name(report)["ridge on g"]
    assert list(row.shown) == ["guessing", "raw", "promised", "sent"]
    assert row.shown["guessing"] == f"±{np.sqrt(row.figures['guessing']):.2g} %"
    assert row.shown["promised"].endswith("(100 %)")
    part = np.sqrt(row.figures["from raw readings"] / row.figures["guessing"])
    assert row.shown["raw"].endswith(f"({100 * part:.0f} %)")
    assert part == pytest.approx(np.sqrt(NOISE / (1 + NOISE)), rel=0.05)
    text = str(report)
    assert text.splitlines()[6].split() == ["guessing", "raw", "promised", "sent"]
    assert [row.verdict for row in report.rows] == ["ok"] * 5
    assert "holds" in text


def test_the_last_paragraph_says_what_was_promised_found_unclear_and_next(plan: Plan) -> None:
    text = audit(plan, log(150, 0, memory=0.95)).conclusion()
    assert re.search(r"u ±\S+ / ±0.41 / .* °C; g ±\S+ / ±1.0 / .* %", text)
    assert "Undecided: " in text
    assert "What to do next: audit again on more rows" in text
    assert text.index("Promised") < text.index("Found") < text.index("Undecided") < text.index("next")
    simulated = vn.audit(plan, only=["attackers"], trials=vn.Trials(attackers=["ridge"], rows=4000))
    says(simulated.conclusion(), "simulated rows", "model")
    assert all(row.what.endswith("simulated") for row in simulated.rows)


# --- a held-out spread that differs


def test_a_smaller_spread_breaks_no_promise() -> None:
    """g moves a fifth as far as the prior says: every error is smaller than promised, and no more is known."""
    plan = vn.design(network(0.5))
    narrow = np.random.default_rng(5).standard_normal(4000)
    data = log(
        4000,
        0,
        g=0.2 * narrow,
        u=0.1 * narrow + np.sqrt(0.75) * slow(4000, 1, 0, np.random.default_rng(6))[:, 0],
    )
    report = audit(plan, data)
    rows = by_name(report)
    ridge = rows["ridge on g"]
    assert ridge.found < 0.1 * ridge.figures["bound"], "the absolute promise would be far from the error"
    assert report.ok, str(report)
    assert ridge.promised == pytest.approx(ridge.figures["guessing"], rel=0.05)
    assert rows["the model against these data"].verdict == "warn"
    assert "spread" in rows["the model against these data"].sentence


# --- planted leaks


def test_a_leak_of_a_message_is_found(plan: Plan) -> None:
    leak = np.asarray(plan.sanitizers["a"].compression)[0] + [0.0, 1.0]
    report = audit(plan, log(2000, 1), sanitizers={"a": lambda y: y @ leak[:, None]})
    row = by_name(report)["ridge on g"]
    assert row.verdict == "fail"
    assert not report.ok
    assert by_name(report)["ridge with memory on g"].verdict == "fail", (
        "single rows are enough: not its memory's doing"
    )
    assert "BROKEN: " in str(report)


def test_an_attacker_who_never_errs_is_found(plan: Plan) -> None:
    """His guesses are the truth in every row, from messages as from raw readings."""
    truth = log(2000, 1)["x"][:, 1:]
    promises = Promises(plan.network, plan.sanitizers)
    judged = Judged("attackers", "ridge", "g", 0, plan.network)
    row = error_row(judged, truth, truth, truth, promises, 1e-3)
    assert row.found == 0.0
    assert row.verdict == "fail", row.sentence


def test_a_leak_through_memory_is_found_and_said_to_be_none_of_the_promise() -> None:
    """One row hides a slow g in noise; past rows average the noise away."""
    loud = {"a": vn.Sanitizer([[1.0, 1.0]], 9.0)}
    plan = make_plan(network(), loud, "test")
    rng = np.random.default_rng(0)
    x = slow(20000, 2, 0.97, rng)
    data = {"a": x + np.sqrt(NOISE) * rng.standard_normal((20000, 2)), "x": x}
    report = audit(plan, data)
    rows = by_name(report)
    assert rows["ridge on g"].verdict != "fail"
    memory = rows["ridge with memory on g"]
    assert memory.verdict == "not covered"
    assert memory.found < rows["ridge on g"].found
    assert "dynamics" in memory.sentence
    assert not report.ok
    assert "An attacker who remembers" in report.conclusion()


def test_a_leak_of_two_values_is_found_where_no_information_was_promised(plan: Plan) -> None:
    """Whether g is high shows in what is sent, within every stretch of time, while the level of u wanders off."""
    rng = np.random.default_rng(2)
    g = np.repeat(rng.random(400) < 0.2, 20) * 2.5 - 0.5
    wander = np.repeat([0.0, 3.0, -3.0, 1.0], 2000)
    data = log(8000, 2, g=g, u=0.4 * g + wander + 0.3 * rng.standard_normal(8000))
    rows = by_name(audit(plan, data))
    values = rows["logistic regression on g (values)"]
    assert values.verdict == "fail"
    assert values.promised == pytest.approx(0.5, abs=0.01)
    assert values.found > 0.75
    for measure in ("AUC", "balanced accuracy", "bits"):
        assert f"{measure}, promised" in values.figures
    assert values.figures["balanced accuracy, sent"] > values.figures["balanced accuracy, promised"]
    assert rows["ridge on g"].found > rows["ridge on g"].figures["guessing"], "it errs by the wandering level"


def test_noise_that_is_not_normal_lets_a_learned_attacker_through() -> None:
    """A reading of g is hidden by noise of two values: linear attackers see little, others read g between them."""
    prior = vn.Prior(covariance=np.eye(2), mean=[0, 0])
    loud = vn.Network({"a": [[1.0, 1.0]]}, 9.0, {"u": [1, 0]}, {"g": [0, 1]}, prior)
    plan = vn.design(loud)
    rng = np.random.default_rng(3)
    x = np.column_stack([0.05 * rng.standard_normal(6000), rng.standard_normal(6000)])
    noise = 3.0 * rng.choice([-1.0, 1.0], 6000)
    # u hardly moves here, so that g is all that is left beside the noise.
    report = audit(plan, {"a": (x.sum(axis=1) + noise)[:, None], "x": x}, attackers=("ridge", "boosting"))
    rows = by_name(report)
    assert rows["boosting on g"].verdict == "fail"
    assert rows["ridge on g"].verdict != "fail"


# --- evidence that is none


def test_an_attacker_who_only_guesses_on_raw_readings_proves_nothing(plan: Plan) -> None:
    class Mean:
        def fit(self, _seen: Any, truth: Any) -> None:
            self.mean = truth.mean(axis=0)

        def predict(self, seen: Any) -> Any:
            return np.tile(self.mean, (len(seen), 1))

    row = by_name(audit(plan, log(2000, 0), attackers={"mean": Mean()}))["mean on g"]
    assert row.verdict == "cannot tell"
    says(row.why, "raw readings", "guessing")


@pytest.mark.parametrize(
    ("raw", "knows", "words"),
    [
        (0.0, 0.5, "does no better than guessing"),
        (0.4, 0.05, "so few independent rows"),
        (0.4, 0.001, "beats the promise by no more than chance"),
        (0.05, 0.001, "does not beat the promise"),
    ],
)
def test_what_is_not_beyond_chance_is_not_called_nothing(raw: float, knows: float, words: str) -> None:
    """On the office an attacker with an error of two thirds of guessing's was said to do no better than guessing."""
    evidence = Evidence(
        sent=0.0,
        raw=raw,
        promised=0.1,
        raw_allowed=0.6,
        reach=0.1,
        beaten=0.5,
        raw_beats=0.4,
        raw_knows=knows,
    )
    verdict, why = verdict_on(evidence, 0.01, found_at="")
    assert verdict == "cannot tell"
    assert words in why


def test_an_attacker_worse_than_guessing_is_no_evidence(plan: Plan) -> None:
    class Misled:
        """Reads g from raw readings, and answers four times too much where it sees messages."""

        def fit(self, _seen: Any, _truth: Any) -> None:
            pass

        def predict(self, seen: Any) -> Any:
            return seen[:, [1]] if seen.shape[1] > 1 else 4.0 * seen[:, [0]]

    row = by_name(audit(plan, log(2000, 0), attackers={"misled": Misled()}))["misled on g"]
    assert row.found > 4 * row.figures["guessing"]
    assert row.verdict == "cannot tell"
    assert "worse than guessing" in row.sentence


def test_too_few_independent_rows_cannot_tell_and_say_what_they_would_have_seen(plan: Plan) -> None:
    report = audit(plan, log(1500, 4, memory=0.98))
    row = by_name(report)["ridge on g"]
    assert row.verdict == "cannot tell"
    assert row.figures["independent rows"] < 150
    assert "would have been found" in row.sentence
    assert report.ok


def test_a_promise_holds_only_where_half_the_raw_leak_would_have_been_found() -> None:
    strong = {
        "sent": 0.0,
        "raw": 0.8,
        "promised": 0.0,
        "raw_allowed": 0.8,
        "beaten": 0.5,
        "raw_beats": 0.0,
        "raw_knows": 0.0,
    }
    assert verdict_on(Evidence(reach=0.3, **strong), 1e-3, found_at="x")[0] == "ok"
    assert verdict_on(Evidence(reach=0.5, **strong), 1e-3, found_at="x")[0] == "cannot tell"


# --- drift, and the public estimate


def test_drift_is_told_from_a_broken_plan(plan: Plan) -> None:
    """The room got warmer, and g follows u as it never did: what is deployed is as planned."""
    rng = np.random.default_rng(7)
    u = rng.standard_normal(3000) + 2.0
    report = audit(plan, log(3000, 7, u=u, g=0.9 * (u - 2.0) + 0.4 * rng.standard_normal(3000)))
    rows = by_name(report)
    model = rows["the model against these data"]
    assert model.verdict == "warn"
    assert "above" in model.sentence
    assert "drift" in model.sentence
    broken = next(row for row in report.rows if row.verdict == "fail" and "g" in row.what)
    says(broken.why, "drift")
    leak = np.asarray(plan.sanitizers["a"].compression)[0] + [0.0, 1.0]
    deployed = audit(plan, log(3000, 8), sanitizers={"a": lambda y: y @ leak[:, None]})
    assert by_name(deployed)["the model against these data"].verdict == "ok"
    assert any("Look at what is deployed first" in row.sentence for row in deployed.failed)


def test_dither_that_raw_readings_do_not_have_is_no_drift() -> None:
    """Steps of two noise deviations: noise as strong as with dither would be drift, and is found."""
    steps = {"a": 2 * np.sqrt(NOISE)}
    # Next to the noise x hardly moves, so that what dither adds to the spread is plain to see.
    prior = vn.Prior(covariance=1e-2 * np.eye(2), mean=[0.0, 0.0])
    coarse = vn.Network({"a": np.eye(2)}, NOISE, {"u": [1, 0]}, {"g": [0, 1]}, prior, resolution=steps)
    rng = np.random.default_rng(11)
    x = 0.1 * rng.standard_normal((4000, 2))
    noise = np.sqrt(NOISE) * rng.standard_normal((4000, 2))
    for loud, verdict in ((1.0, "ok"), (np.sqrt(1 + 4 / 12), "warn")):
        samples = Samples(x + loud * noise, {"g": x[:, 1:]}, x[:, :1], None, np.arange(4000))
        row = model_row("attackers", coarse, samples, {}, 1e-3)
        assert row.verdict == verdict, row.sentence


def test_a_public_error_far_above_the_promise_is_broken(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = log(
        2000, 9, noise=np.sqrt(NOISE) * np.array([3.4**0.5, 1.0]) * slow(2000, 2, 0, np.random.default_rng(9))
    )
    path = tmp_path / "held_out.csv"
    table = np.column_stack([data["a"], data["x"]])
    np.savetxt(path, table, delimiter=",", header="a[1],a[2],u,g", comments="")
    plan.save(tmp_path / "plan")
    assert run(["audit", str(tmp_path / "plan"), "--data", str(path), "--only", "attackers", "--quick"]) == 1
    text = capsys.readouterr().out
    assert "BROKEN: public estimate of u" in text
    assert "What to do next" in text


# --- false alarms


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_promises_that_hold_are_not_called_broken(plan: Plan, memory: float) -> None:
    """Twenty logs at one in a hundred: more than two broken ones have a chance of one in a thousand."""
    broken = [not audit(plan, log(800, 100 + seed, memory)).ok for seed in range(20)]
    assert sum(broken) <= 2


def test_neighbours_in_time_tell_nothing_of_themselves(plan: Plan) -> None:
    """Messages that wander slowly, and g that wanders slowly, have nothing to do with one another."""
    wandering = log(4000, 11, memory=0.995)
    report = audit(plan, wandering, attackers=("ridge", "neighbours", "boosting"))
    assert report.ok, str(report)


# --- another log to learn from


def test_attackers_learn_from_the_log_of_the_fit_and_are_judged_later() -> None:
    """Only the first log moves g enough to learn how messages tell it; the later one alone teaches too little."""
    loud = make_plan(network(), {"a": vn.Sanitizer([[1.0, 1.0]], 1.0)}, "test")
    fit, later = log(6000, 21), log(1000, 22)
    learned = by_name(
        vn.audit(loud, later, train=fit, only=["attackers"], trials=vn.Trials(attackers="ridge"))
    )
    alone = by_name(audit(loud, later))
    row = learned["ridge on g"]
    assert row.figures["learned rows"] == 6000
    assert row.figures["tested rows"] == 1000
    assert "learned rows" not in alone["ridge on g"].figures
    # E[g | z], z = u + g + two noises and what the sanitizer adds, leaves 1 - 1/(2 + 2 NOISE + 1) of g.
    expected = 1 - 1 / (3 + 2 * NOISE)
    assert row.figures["part of guessing, sent"] == pytest.approx(expected, abs=0.04)


def test_what_the_first_log_taught_wrong_is_held_against_the_attacker(plan: Plan) -> None:
    """In the log of the fit g follows u, later it does not: errors are those of somebody misled."""
    rng = np.random.default_rng(23)
    u = rng.standard_normal(3000)
    row = by_name(
        vn.audit(
            plan, log(3000, 24), train=log(3000, 25, u=u, g=u), only=["attackers"],
            trials=vn.Trials(attackers="ridge"),
        )
    )["ridge on g"]  # fmt: skip
    assert row.found > 1.2 * row.figures["guessing"]


def test_values_that_only_the_first_log_has_are_not_learned(plan: Plan) -> None:
    rng = np.random.default_rng(26)
    three, two = rng.integers(0, 3, 3000) * 1.0, rng.integers(0, 2, 2000) * 1.0
    report = vn.audit(
        plan, log(2000, 27, g=two, u=0.5 * two + rng.standard_normal(2000)), only=["attackers"],
        train=log(3000, 28, g=three, u=0.5 * three + rng.standard_normal(3000)),
        trials=vn.Trials(attackers="ridge"),
    )  # fmt: skip
    row = by_name(report)["logistic regression on g (values)"]
    assert row.figures["values"] == 2
    assert row.found == pytest.approx(0.62, abs=0.05), "Φ(0.5 / √2.4), the best there is from u's reading"


def test_rows_to_learn_from_are_others_than_those_judged(plan: Plan) -> None:
    data = log(2000, 29)
    with pytest.raises(vn.VeilnetError, match=r"train: .* data too"):
        vn.audit(plan, data, train={name: each[500:] for name, each in data.items()}, only=["attackers"])
    with pytest.raises(vn.VeilnetError, match=r"train: .*data="):
        vn.audit(plan, train=data)
    with pytest.raises(vn.VeilnetError, match=r"train: .*'attackers'"):
        vn.audit(plan, data, train=log(2000, 30), only=["lattice"])
    with pytest.raises(vn.VeilnetError, match=r"train: .* 'x'|train: .* 'g'"):
        vn.audit(plan, data, train={"a": data["a"]}, only=["attackers"])


def test_the_last_paragraph_says_what_was_reached_where_rows_are_too_few_to_be_sure(plan: Plan) -> None:
    leak = np.asarray(plan.sanitizers["a"].compression)[0] + [0.0, 1.0]
    fit, later = log(4000, 31), log(300, 32, memory=0.98)
    report = audit(plan, later, train=fit, sanitizers={"a": lambda y: y @ leak[:, None]})
    unclear = [
        row for row in report.unclear if row.figures.get("parameter") == "g" and row.found < row.promised
    ]
    assert unclear
    best = min(unclear, key=lambda row: row.found)
    assert best.shown["sent"] in report.conclusion()


@pytest.mark.parametrize("stream", [False, True])
def test_a_memory_reaches_what_a_ridge_on_all_rows_around_reaches(stream: bool) -> None:
    """A house with memory, and noise slower than the model says. The other ridge, on each of the rows from 72 before
    to 12 after, has its penalty chosen on the very rows it is judged on.
    """
    rng = np.random.default_rng(40)
    observe = {f"room{k}": rng.standard_normal((2, 3)) for k in range(3)}
    keeps = np.array([0.99, 0.95, 0.9])
    kind = (
        {"dynamics": vn.Dynamics(transition=np.diag(keeps), noise=np.diag(1 - keeps**2))}
        if stream
        else {"prior": vn.Prior(covariance=np.eye(3), mean=np.zeros(3))}
    )
    house = vn.Network(observe, 1.0, {"u": [1, 0, 0]}, {"g": [0, 1, 0]}, resolution=0, **kind)
    sanitizers = {room: vn.Sanitizer([[1.0, 0.3]], 0.5) for room in observe}
    house_plan = make_plan(house, sanitizers, "test")

    def walk(rows: int, keeps: Array) -> Array:
        return np.column_stack([slow(rows, 1, each, rng)[:, 0] for each in keeps])

    logs = []
    for rows in (5000, 3000):
        x, noise = walk(rows, keeps), walk(rows, np.full(6, 0.7))
        readings = x @ np.concatenate(list(observe.values())).T + noise
        logs.append({room: readings[:, 2 * k : 2 * k + 2] for k, room in enumerate(observe)} | {"x": x})
    report = audit(house_plan, logs[1], train=logs[0])
    row = by_name(report)["ridge on g" if stream else "ridge with memory on g"]
    shown = []
    for each in logs:
        sent = np.concatenate([house_plan.sanitizers[room].sanitize(each[room]) for room in observe], axis=1)
        lags = [sent[72 + lag : len(sent) - 12 + lag] for lag in range(-72, 13)]
        shown.append(np.concatenate(lags, axis=1))
    (learned, judged), (goal, truth) = shown, (each["x"][72:-12, 1] for each in logs)
    gram, cross = learned.T @ learned, learned.T @ goal
    ridges = (np.linalg.solve(gram + each * np.eye(len(gram)), cross) for each in 10.0 ** np.arange(1, 6))
    best = min(float(np.mean((judged @ weights - truth) ** 2)) for weights in ridges)
    assert row.found < 1.01 * best
    assert best < 0.8 * by_name(report)["ridge on g"].promised or stream
