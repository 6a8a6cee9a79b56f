"""Running deployed sanitizers on probing readings and comparing every answer with the plan.

Each mechanism is a black box. It is given the same reading over and over (what then varies is its noise),
then readings all over the range (what then follows them is its compression). For a sound sanitizer
z - C(y - offset), or z - C(s, y - offset) with a memory s, is noise with covariance Θ, plus C d of uniform dither
where readings have a resolution, plus at most a grid step of rounding: it must be of the right strength and law,
must not follow the readings, must never repeat within a call, between calls or between agents, and every number must
lie on the public grid. Rounding, dither and noiseless rows are checked without any chance of a false alarm, the rest
by exact tests. With a memory, every call is a stream of its own. Its first row shows the memory that it drew; the
rest is judged once that is forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet.agent.recipe import reach
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.deployed.draws import (
    AgentDraws,
    Probed,
    Span,
    between_agents,
    guessed_seed,
    pairs_apart,
    probed,
    score_against,
)
from veilnet.auditing.deployed.law import MEDIAN_SIZE, half_precision, law_measurements, low_bits
from veilnet.auditing.deployed.noise import Noise
from veilnet.auditing.deployed.response import (
    first_numbers,
    impulse,
    planned_answers,
    reach_of_dither,
    rounding_allowed,
    rows_to_forget,
)
from veilnet.auditing.statistics import chi_square_p, subgaussian_p, subgaussian_square_p
from veilnet.auditing.what_if.variants import simulated

_ROWS = 1024  # rows per probing call: half the variance is noticed with certainty
_LAGS = 16  # repetitions up to this many rows apart are sought by correlation, any other by equality
_PAST = 6  # rows of readings that what is left may not follow, where there is a memory
_FARTHER_OUT = 100.0  # some probes lie this many times farther out, so that small errors in C show
_SLACK = 1.001  # rounding of sums inside a grid step


def probe(deployment: Deployment, seed: int, advance: Callable[[float], None]) -> list[Probed]:
    """Every measurement of every agent, and of every two of them."""
    rng = np.random.default_rng([seed, 1])
    wide = simulated(deployment.network)
    typical = draw_readings(wide, draw_x(wide, rng, _ROWS), rng)
    measured: list[Probed] = []
    streams: dict[str, AgentDraws] = {}
    agents = deployment.network.agents
    for place, agent in enumerate(agents):
        own = np.ascontiguousarray(typical[:, deployment.network.blocks.rows(place)])
        try:
            found, streams[agent] = _one_agent(deployment, agent, own, rng)
            measured += found
        except Misbehaves as trouble:
            measured.append(Probed("answers", agent, 0.0, 0.0, f"{agent}: {trouble}"))
        advance((place + 1) / len(agents))
    measured += between_agents(streams)
    return measured


def _one_agent(
    deployment: Deployment, agent: str, typical: Array, rng: np.random.Generator
) -> tuple[list[Probed], AgentDraws]:
    planned = deployment.planned[agent]
    noise = Noise.of(planned)
    reading = _inside(typical[:1], planned)
    same = np.repeat(reading, _ROWS, axis=0)
    run = _Run(deployment, agent)
    began = time.time()
    calls = [run.release(same)]
    span = Span(began, time.time())
    calls.append(run.release(same))
    spread = _inside(typical, planned)
    answers = [run.release(spread) for _ in range(2)]
    far = _far(spread, planned, rng)
    if planned.sent == 0:
        empty = np.zeros((0, 0))
        return [Probed("answers", agent, 1.0, 0.0, f"{agent}: sends nothing")], AgentDraws(
            empty, empty, empty
        )
    blocks = [(same, calls[0]), (same, calls[1]), (spread, answers[0]), (spread, answers[1])]
    if far is not None:
        blocks.append((far, run.release(far)))
    left = run.left
    measured = [Probed("answers", agent, 1.0, float(planned.sent), f"{agent}: answers as planned")]
    measured += _on_grid(agent, noise, np.concatenate([z for _, z in blocks]))
    measured += _within_reach(agent, noise, blocks, left)
    white = [noise.white(rest) for rest in left]
    measured += _strength(agent, noise, white)
    measured += _starts(agent, noise, np.array(run.first))
    normal = noise.without_dither()
    drawn = [normal.white(rest) for rest in left]
    measured += law_measurements(agent, np.concatenate(drawn), normal.rounding)
    measured += _digits(agent, normal, calls, drawn[2:], left[2:])
    measured += guessed_seed(agent, drawn[0], normal.rounding, span)
    calm = [noise.calm(rest) for rest in white]
    for (y, _), rest in zip(blocks[2:], calm[2:], strict=True):
        measured += _follows(agent, y if planned.memory is None else _with_past(y), rest)
    if not noise.lingers:
        measured += _repeats(agent, calm[:2])
    measured += _equal_stretches(agent, noise, np.concatenate(calls))
    dithered = _dithered(noise)
    dither = [rest[:, dithered] / (noise.step[dithered] / 2.0) for rest in left[2:4]]
    measured += _same_dither(agent, dither)
    if agent in deployment.repeatable:
        words = f"{agent}: its answers say themselves that their noise is seeded and can be repeated"
        measured.append(Probed("fresh noise", agent, 0.0, 0.0, words))
    return measured, AgentDraws(
        np.concatenate(calm[:2]), dither[0], _coins(np.concatenate(drawn[:2]), normal)
    )


class _Run:
    """Calls of one agent, each a stream of its own.

    left:  what is left of each call's answers without what was planned, once the drawn memory is forgotten.
    first: the same of the very first row, which shows that memory.
    """

    def __init__(self, deployment: Deployment, agent: str) -> None:
        self._deployment, self._agent = deployment, agent
        self._planned = deployment.planned[agent]
        self._lead = rows_to_forget(self._planned)
        self.left: list[Array] = []
        self.first: list[Array] = []

    def release(self, readings: Array) -> Array:
        """What is sent for the readings (T, N_i), after as many others as the drawn memory takes to fade."""
        whole = np.concatenate([np.repeat(readings[:1], self._lead, axis=0), readings])
        sent = self._deployment.release(self._agent, whole)
        left = sent - planned_answers(self._planned, whole)
        self.first.append(left[0])
        self.left.append(left[self._lead :])
        return sent[self._lead :]


# --- readings


def _inside(readings: Array, planned: Sanitizer) -> Array:
    """Readings within the limits, where there are some."""
    if planned.limits is None:
        return readings
    return np.clip(readings, *planned.limits)


def _far(spread: Array, planned: Sanitizer, rng: np.random.Generator) -> Array | None:
    """Readings far out: all over the limits, or a hundred times as far as others, where an agent lets that in.

    A grid has a reach, which a memory shortens, since it keeps rounding errors: beyond a quarter of it a row is moved
    back towards the middle.
    """
    middle = np.mean(spread, axis=0)
    if planned.limits is not None:
        low, high = planned.limits
        if not np.all(np.isfinite(high - low)):
            return None
        away = rng.uniform(low, high, spread.shape) - middle
    else:
        away = _FARTHER_OUT * (spread - middle)
    if planned.grid is None or not planned.sent:
        return np.asarray(middle + away)
    room = reach(planned.compression, planned.grid, planned.memory) / 4 - np.abs(middle - planned.offset)
    if np.any(room <= 0):
        return None
    part = np.max(np.abs(away) / room, axis=1, keepdims=True)
    return np.asarray(middle + away / np.maximum(part, 1.0))


# --- tests of one agent


def _on_grid(agent: str, noise: Noise, sent: Array) -> list[Probed]:
    if noise.sanitizer.grid is None and _sends_everything(noise.sanitizer):
        return []  # nothing is withheld, so nothing can show in the low bits
    if noise.sanitizer.grid is None:
        words = f"{agent}: the plan sets no grid, so the low bits of what it sends are not protected"
        return [Probed("grid", agent, 0.0, 1.0, words)]
    multiples = sent / noise.step
    off = np.mean((multiples != np.rint(multiples)) | ((sent == 0) & np.signbit(sent)))
    words = f"{agent}: {100 * off:.3g} % of its numbers do not lie on the public grid"
    return [Probed("grid", agent, 0.0 if off > 0 else 1.0, float(off), words)]


def _sends_everything(sanitizer: Sanitizer) -> bool:
    rows, noisy = sanitizer.normal
    return rows.shape[0] == sanitizer.readings and not np.any(noisy)


def _within_reach(
    agent: str, noise: Noise, blocks: list[tuple[Array, Array]], left: list[Array]
) -> list[Probed]:
    """Combinations without noise are rounding, always; numbers with dither alone never stray beyond its reach."""
    only = np.eye(noise.step.size)[:, (np.diag(noise.sanitizer.noise) == 0) & (noise.reach > 0)]
    kinds = (
        (noise.exact, noise.reach if noise.lingers else 0.0, "without noise"),
        (only, noise.reach, "with dither alone"),
    )
    measured = []
    for rows, moved, carrying in kinds:
        words = f"{agent}: a number sent {carrying} is not the combination the plan says"
        for (y, _), rest in zip(blocks, left, strict=True) if rows.shape[1] else ():
            allowed = moved + _SLACK * noise.step + rounding_allowed(noise.sanitizer, y)
            worst = float(np.max(np.abs(rest @ rows) / (allowed @ np.abs(rows))))
            measured.append(Probed("response", agent, 0.0 if worst > 1 else 1.0, worst, words))
    return measured


def _strength(agent: str, noise: Noise, white: list[Array]) -> list[Probed]:
    """The variance along every direction, and the correlation of every two, must be the plan's."""
    measured: list[Probed] = []
    if not noise.noisy.shape[1]:
        return measured
    kinds = ("the same reading", "other readings", "readings far out")
    for kind, rests in zip(kinds, (white[:2], white[2:4], white[4:]), strict=True):
        if not rests:
            continue
        stack = np.concatenate(rests)
        sums = np.sum(stack**2, axis=0)
        for p, ratio in zip(_square_p(noise, sums, len(stack)), (sums / len(stack)).tolist(), strict=True):
            words = f"{agent}: for {kind}, its noise has {100 * ratio:.3g} % of the variance the plan says"
            measured.append(Probed("noise", agent, float(p), ratio, words))
        calm = noise.calm(stack)
        means = np.sum(calm, axis=0) / np.sqrt(len(stack))
        words = f"{agent}: its noise is not centred for {kind}"
        measured += probed("noise", agent, subgaussian_p(means), means, words)
        for j in range(0 if noise.lingers else stack.shape[1]):
            scores = score_against(calm[:, j], calm[:, j + 1 :])
            chances = subgaussian_p(scores) if noise.normal else _mixed_p(stack, j, noise.swelling)
            words = f"{agent}: its noise is correlated otherwise"
            measured += probed("noise", agent, chances, scores, words)
    return measured


def _starts(agent: str, noise: Noise, first: Array) -> list[Probed]:
    """The memory that each call drew, as its first numbers show it, must be as large as the plan says."""
    planned = noise.sanitizer
    if planned.memory is None or planned.memory.start is None:
        return []
    values, vectors = np.linalg.eigh(first_numbers(planned))
    seen = values > 1e-12 * values[-1]
    white = first @ (vectors[:, seen] / np.sqrt(values[seen]))
    # Dither and rounding move the norm of all draws by no more than this.
    moved = np.linalg.norm(
        (reach_of_dither(planned) + noise.step) @ np.abs(vectors[:, seen]) / np.sqrt(values[seen])
    )
    root, count = float(np.linalg.norm(white)), white.size
    spread = float(moved) * np.sqrt(len(first))
    nearest = np.clip(np.sqrt(count), max(0.0, root - spread), root + spread) ** 2
    p = float(chi_square_p(np.array([nearest]), count, np.zeros(1))[0])
    words = (
        f"{agent}: the memory it begins with is {100 * root**2 / count:.3g} % of the variance the plan says"
    )
    return [Probed("noise", agent, p, root**2 / count, words)]


def _square_p(noise: Noise, sums: Array, count: int) -> Array:
    """p-values of sums of ``count`` squared draws."""
    if noise.normal:
        return chi_square_p(sums, count, noise.swelling)
    if not noise.lingers:
        return subgaussian_square_p(sums, count, noise.swelling)
    # The draws are normal, and dither and rounding move each of them by no more than this: so the norm of all.
    moved = noise.rounding * np.sqrt(count)
    roots = np.sqrt(sums)
    low = chi_square_p((roots + moved) ** 2, count, np.zeros(len(sums)))
    high = chi_square_p(np.maximum(roots - moved, 0.0) ** 2, count, np.zeros(len(sums)))
    inside = (roots - moved <= np.sqrt(count)) & (np.sqrt(count) <= roots + moved)
    return np.where(inside, 1.0, np.where(roots < np.sqrt(count), low, high))


def _mixed_p(stack: Array, j: int, swelling: Array) -> Array:
    """p-values of the sums of products of column j with later ones, uncorrelated but not independent of it.

    4ab = (a + b)² - (a - b)²: where neither square strays, the product does not.
    """
    one, others = stack[:, j, None], stack[:, j + 1 :]
    most = np.maximum(swelling[j], swelling[j + 1 :])
    chances = [
        subgaussian_square_p(np.sum((one + sign * others) ** 2, axis=0) / 2.0, len(stack), most)
        for sign in (1.0, -1.0)
    ]
    return np.minimum(1.0, chances[0] + chances[1])


def _follows(agent: str, readings: Array, rest: Array) -> list[Probed]:
    """What is left must not follow the readings: each score is 1-sub-Gaussian given them."""
    if not rest.shape[1]:
        return []
    deviations = np.std(readings, axis=0)
    design = (readings - np.mean(readings, axis=0)) / np.where(deviations > 0, deviations, 1.0)
    basis, _ = np.linalg.qr(design)
    scores = (basis.T @ rest).reshape(-1)
    words = f"{agent}: what it sends follows its readings otherwise than the plan says"
    return probed("response", agent, subgaussian_p(scores), scores, words)


def _with_past(readings: Array) -> Array:
    """Readings beside those of the rows before; nothing came before the first."""
    centred = readings - np.mean(readings, axis=0)
    past = [
        np.concatenate([np.zeros_like(centred[:lag]), centred[: len(centred) - lag]]) for lag in range(_PAST)
    ]
    return np.concatenate(past, axis=1)


def _digits(
    agent: str, noise: Noise, calls: list[Array], white: list[Array], left: list[Array]
) -> list[Probed]:
    """Noise must use every value of the public grid, not those of a coarser one or of half precision."""
    deviation = np.sqrt(np.maximum(np.diag(noise.sanitizer.noise), 0.0))
    noisy = np.flatnonzero((deviation > 4 * noise.step) & (noise.step > 0))
    if not noisy.size:
        return []
    steps = noise.step[noisy]
    measured = low_bits(agent, np.concatenate(calls)[:, noisy] / steps, deviation[noisy] / steps)
    # Such noise is rounded to the nearest multiple: half a step.
    measured += half_precision(agent, np.concatenate(white), noise.rounding / 2)
    unit = np.exp2(np.round(np.log2(deviation[noisy])))  # a power of two changes no digit
    return measured + half_precision(agent, np.concatenate(left)[:, noisy] / unit, steps / unit / 2)


def _coins(white: Array, noise: Noise) -> Array:
    """±1 for draws larger or smaller than most: fair and unrelated between agents, where rounding is negligible."""
    sure = noise.rounding < 1e-2
    return np.where(np.abs(white[:, sure]) > MEDIAN_SIZE, 1.0, -1.0)


def _repeats(agent: str, white: list[Array]) -> list[Probed]:
    """Noise of rows a few apart, and of one row in two calls, must be uncorrelated."""
    words = f"{agent}: its noise repeats itself: the same draws are used again"
    scores = [score_against(a, b[:, None]) for a, b in zip(white[0].T, white[1].T, strict=True)]
    for lag in range(1, _LAGS + 1):  # scores are sub-Gaussian given one side of disjoint pairs
        first = pairs_apart(len(white[0]), lag)
        scores += [score_against(column[first], column[first + lag, None]) for column in white[0].T]
    stacked = np.concatenate([np.zeros(0), *scores])
    return probed("fresh noise", agent, subgaussian_p(stacked), stacked, words)


def _equal_stretches(agent: str, noise: Noise, sent: Array) -> list[Probed]:
    """No stretch of noisy numbers sent for one reading may ever come again, at any distance.

    A number with noise σ on a grid of step s takes no value with probability above s/(σ√2π),
    whatever came before. Two given stretches of w numbers are thus equal with at most the w-th power of
    it, and w is chosen so that no two of them are, but for a chance of 1e-18.
    """
    deviation = np.sqrt(np.maximum(np.diag(noise.sanitizer.noise), 0.0))
    if noise.sanitizer.resolution is not None:
        # The density of c'd is at most 1/(|c_k| q_k) for every dithered reading k, that of normal noise 0.4/σ.
        steps = np.where(noise.sanitizer.dither > 0, noise.sanitizer.resolution, 0.0)
        widths = np.abs(impulse(noise.sanitizer)) * steps
        deviation = np.maximum(deviation, 0.4 * np.max(widths, axis=1, initial=0.0))
    noisy = np.flatnonzero((deviation > 4 * noise.step) & (noise.step > 0))
    # Numbers whose noises are correlated are not unpredictable given each other: take one of them.
    if np.any(noise.covariance - np.diag(np.diag(noise.covariance))):
        noisy = noisy[:1]
    if not noisy.size:
        return []
    likeliest = float(np.sum(np.log(0.4 * noise.step[noisy] / deviation[noisy])))
    rows = int(np.ceil((np.log(1e-18) - 2 * np.log(len(sent))) / likeliest))
    taken = np.ascontiguousarray(sent[:, noisy])
    seen: set[bytes] = set()
    equal = 0
    for start in range(len(taken) - rows + 1):
        stretch = taken[start : start + rows].tobytes()
        equal += stretch in seen
        seen.add(stretch)
    words = f"{agent}: the same noise was drawn {equal} times again for the same reading"
    return [Probed("fresh noise", agent, 1e-18 if equal else 1.0, float(equal), words)]


def _dithered(noise: Noise) -> Booleans:
    """The numbers that carry no noise but are rounded at random: their error has two values, a step apart."""
    return np.asarray((np.diag(noise.covariance) == 0) & (noise.reach == 0) & (noise.step > 0))


def _same_dither(agent: str, dither: list[Array]) -> list[Probed]:
    words = f"{agent}: the random rounding of its numbers repeats itself: the same draws are used again"
    scores = [score_against(a, b[:, None]) for a, b in zip(dither[0].T, dither[1].T, strict=True)]
    stacked = np.concatenate([np.zeros(0), *scores])
    return probed("fresh noise", agent, subgaussian_p(stacked), stacked, words)
