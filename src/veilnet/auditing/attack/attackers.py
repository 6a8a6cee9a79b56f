"""Learned attackers on simulated rows: regressors trained from sanitized messages to each private parameter.

They are given what an attacker could have at best, messages beside the truth (of a stream those of many rows, earlier
and later ones), and are judged on draws they have not seen. On rows drawn from the model no attacker beats the bound:
whatever it answers, its error is g - E[g|z], normal with covariance G P̃ G' and independent of z, plus something that
depends on z alone; given the messages its sum of squares is thus at least as large, in distribution, as that of the
first part. The lower limit of :class:`SquareSum` therefore holds for every attacker there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.error_rows import slices_of
from veilnet.auditing.attack.learners import Learner, choose_attackers, guesses_of
from veilnet.auditing.attack.verdicts import Evidence, verdict_on
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.measures import InUnit
from veilnet.auditing.row import Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import SquareSum
from veilnet.auditing.world import EstimatedRows
from veilnet.auditing.worlds import World
from veilnet.bounds.typical_errors import unit_of
from veilnet.calibration.dependence import ratio_of

SECTION = Section.ATTACKERS.heading
__all__ = ["SECTION", "Learner", "attacker_rows", "choose_attackers"]


def attacker_rows(
    world: World,
    deployment: Deployment,
    attackers: Mapping[str, Learner],
    count: int,
    seed: int,
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Every attacker on every private parameter, on ``count`` rows drawn from the model: learned from one half."""
    world = world.learnable
    network, trial = world.network, world.trial(deployment.planned)
    draws = max(4, 2 * -(-count // (2 * len(trial.at))))
    drawn = trial.draw(draws, np.random.default_rng([seed, 4]))
    messages = trial.features(deployment.release_streams(drawn.readings))
    readings = trial.features(drawn.readings)
    private = np.concatenate(list(network.private.values()))
    truth = (drawn.x[:, trial.at] @ private.T).reshape(-1, len(private))
    learned = draws // 2 * len(trial.at)
    guesses: dict[str, tuple[Array, Array]] = {}
    for done, (label, attacker) in enumerate(attackers.items()):
        from_messages = guesses_of(attacker, messages, truth, learned)
        advance((done + 0.5) / len(attackers))
        guesses[label] = from_messages, guesses_of(attacker, readings, truth, learned)
        advance((done + 1) / len(attackers))
    each = chance / max(1, len(guesses) * len(network.private))
    goal, mean = truth[learned:], np.mean(truth[:learned], axis=0)
    rows = []
    for name, part in slices_of(network.private).items():
        asked = EstimatedRows(name, name, network.private[name], public=False)
        law, raw = trial.law(asked, draws - draws // 2), world.raw_error(asked)
        units = InUnit(unit_of(network, name), len(asked.rows))
        for label, answers in guesses.items():
            squares = [np.sum((guess[..., part] - goal[:, part]) ** 2, axis=1) for guess in (*answers, mean)]
            rows.append(_row(label, name, squares, law, raw, units, each))
    return rows


def _row(
    label: str,
    name: str,
    squares: list[Array],
    law: SquareSum,
    raw_bound: float,
    units: InUnit,
    chance: float,
) -> Row:
    """The row of an attack: no attacker falls below the law of the best one but for the given chance.

    squares:   squared errors, a row each: from messages, from raw readings, and by guessing the mean.
    raw_bound: the mean square error that raw readings leave by the model.
    """
    found, raw, guessing = (float(np.mean(each)) for each in squares)
    bound = law.mean
    noticed = max(0.0, law.lowest(chance) + law.lowest(0.2) - bound)  # four in five fall so low
    evidence = Evidence(
        sent=1.0 - found / guessing,
        raw=1.0 - raw / guessing,
        promised=1.0 - bound / guessing,
        raw_allowed=1.0 - raw_bound / guessing,
        reach=(bound - noticed) / guessing,
        beaten=0.0 if found < law.lowest(chance) else 1.0,
        raw_beats=ratio_of(squares[1], np.full(len(squares[1]), bound)).chance_below(1.0),
        raw_knows=ratio_of(squares[1], squares[2]).chance_below(1.0),
    )
    verdict, why = verdict_on(evidence, chance, found_at=f"an error of {units(noticed)} or less")
    if verdict == "fail":
        why = "It learns more from the messages than the bound allows."
    figures = {"parameter": name, "from raw readings": raw, "guessing": guessing, "bound": bound}
    figures |= {
        "raw bound": raw_bound,
        "tested rows": float(len(squares[0])),
        "effective rows": law.effective,
    }
    figures["error that would have been found"] = noticed
    shown = units.shown(guessing, raw, bound, found)
    what = f"{label} on {name}, simulated"
    return Row(SECTION, what, bound, found, verdict, why, law.interval(found), figures, shown)
