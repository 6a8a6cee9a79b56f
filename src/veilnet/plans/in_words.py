"""What a plan does, in whole sentences: what is sent, how far off the centre then is, and how good the plan is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.words import NOTHING, counted, join_names, number, percent, times
from veilnet.bounds.detectability import Detector, secrets_headlines
from veilnet.bounds.typical_errors import (
    OF_STREAMS,
    ROWS_OF_CONSTANT,
    STREAM_COLUMNS,
    TypicalError,
    beside_errors,
    error_lines,
    typical_errors,
)
from veilnet.model.stream_size import GAPS_ARE_NOT_COMPUTED, NOW_IS_NOT_COMPUTED, by_stacks
from veilnet.plans.certificate import CHANGE_OF, DITHERED, LOSS_ALLOWED, NOISE_POWER, Certificate
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.plan import Plan
from veilnet.sums.collusion import left_by_turns
from veilnet.sums.handing_out import members_of

# Methods that are not simply the best plan found: they are named to who asked for them.
_BY_NAME = ("noise", "power", "alternating")
_ROUNDING = 1e-9  # of a floor: floors lie a little below what is free
_WIDE = 1.0  # a larger gap is said as a factor
_AROUND_GAPS = "around a missed row and at a start"
_SHOWN = 1e-3  # a smaller difference is not seen in what is printed


def plan_in_words(plan: Plan) -> str:
    """The plan for a reader: a headline, one line for each parameter, what is known of its quality, remarks."""
    errors = typical_errors(plan.network, plan.sanitizers, privacy=plan.privacy)
    lines = [_headline(plan, errors), *secrets_headlines(plan.network, plan.detectability)]
    more = STREAM_COLUMNS if plan.network.is_stream and plan.privacy_now else ()
    lines += error_lines(
        (
            (*error.cells(_seen(plan, error.name)), *(_on_a_stream(plan, error.name) if more else ()))
            for error in errors.values()
        ),
        *more,
    )
    lines += [f"{name}: {said}" for name in plan.network.private if (said := _private(plan, name))]
    lines += beside_errors(errors.values())
    if plan.network.prior is None and not plan.network.is_stream:
        lines.append(
            "Without a prior these are errors of unbiased estimators: prior knowledge of x makes them smaller."
        )
    if plan.network.is_stream:
        lines.append(OF_STREAMS)
    if by_stacks(plan.network):
        lines.append(NOW_IS_NOT_COMPUTED)
    lines += _cost_of_gaps(plan.details)
    if plan.floors:
        verb = "stays" if len(plan.floors) == 1 else "stay"
        kept = join_names(list(plan.floors))
        lines.append(f"{kept} {verb} at least as well protected as for free.")
    if plan.given_up:
        was = "was" if len(plan.given_up) == 1 else "were"
        lines.append(f"{join_names(plan.given_up)} {was} given up and may be protected less than for free.")
    lines += _less_than_free(plan)
    lines += power_in_words(plan.certificate)
    lines += sums_in_words(plan)
    lines += rounding_in_words(plan)
    lines.append(quality(plan))
    if "remark" in plan.details:
        lines.append(f"Remark: {plan.details['remark']}.")
    if plan.interrupted:
        lines.append(
            "The search was interrupted: this is the best plan found so far, and it keeps its promises."
        )
    return "\n".join([*lines, *plan.notes()])


def sums_in_words(plan: Plan) -> list[str]:
    """Who has to be honest where only sums are seen, and what one agent or two on the centre's side undo."""
    lines = []
    for name, group in plan.network.members.items():
        first = plan.members[group.agents[0]]
        assert first.summed is not None
        lines.append(
            f"The centre sees only the sum of {join_names(list(group.agents))} ({name}): "
            f"{counted(first.sent, 'number')} a row of {first.summed.bits} bits each, opened when at least "
            f"{group.threshold} of {len(group.agents)} are there. "
            "Masks hide what each member adds (veilnet agent)."
        )
    if not lines:
        return []
    by_turns = left_by_turns(plan.network, plan.sanitizers, ROWS_OF_CONSTANT)
    if by_turns:
        grown = [f"{each} {times(1 + max(left, 0.0))}" for each, left in by_turns.items()]
        lines.append(
            f"If x stays, and another agent is missing in each of {ROWS_OF_CONSTANT} rows, standard errors against "
            f"one raw row grow: {join_names(grown)}."
        )
    for many, helps in ((1, "one agent helps"), (2, "two agents help")):
        if many < len(plan.members) and not (many > 1 and plan.network.is_stream):
            with_helpers = [
                f"{each} {times(1 + max(found.privacy, 0.0))} ({join_names(list(found.agents))})"
                for each, found in plan.collusion(many).items()
            ]
            lines.append(f"If {helps} the centre, standard errors grow at least: {join_names(with_helpers)}.")
    return lines


def rounding_in_words(plan: Plan) -> list[str]:
    """How many bits a row takes, what that costs, and what it hides beside what is promised."""
    rounding = plan.rounding
    if rounding is None:
        return []
    more = [
        f"{name} {times(1 + each)}"
        for name, each in rounding.privacy.items()
        if 1 + each > (1 + plan.privacy[name]) * (1 + _SHOWN)
    ]
    hides = (
        f" To linear attackers rounding is noise: {join_names(more)}; no promise relies on that."
        if more
        else ""
    )
    return [
        f"A row takes {number(rounding.bits_a_row)} bits after entropy coding; rounding to coarse grids raises the "
        f"public standard error by another {percent((1 + rounding.cost) ** 0.5 - 1)}.{hides}"
    ]


def _less_than_free(plan: Plan) -> list[str]:
    """What a number below what is free gave away, and how to keep it."""
    free = {name: float(value) for name, value in plan.details.get("ceiling", {}).items()}
    return [
        f"{name}: {times(1 + plan.targets[name])} was asked, and {times(1 + value)} would be free. Ask nothing of it "
        "to keep that; the loss may then be larger."
        for name, value in free.items()
        if plan.method == "joint" and plan.targets.get(name) and plan.privacy[name] < value * (1 - _SHOWN)
    ]


def _cost_of_gaps(details: Mapping[str, Any]) -> list[str]:
    """What a missed row costs the public estimate; nothing of rows by themselves."""
    costs = details.get("public_after_missed_row")
    if not isinstance(costs, list) or not any(costs):
        return []
    one, everyone = (times(1 + each) for each in costs)
    return [
        f"After a missed row the public standard error grows at most {one} (one agent) or {everyone} (all agents), "
        "until the memories have refilled."
    ]


def _headline(plan: Plan, errors: Mapping[str, TypicalError]) -> str:
    public = join_names(list(plan.network.public))
    cost = f", and nothing is lost on {public}" if -plan.utility < NOTHING else f"; {_cost(plan, errors)}"
    count = len(plan.sanitizers)
    if plan.network.members:
        return (
            f"{counted(len(members_of(plan.network)), 'agent')} send sums, "
            f"{counted(sum(plan.sent.values()), 'number')} for {counted(plan.network.N, 'reading')}"
            f"{_rows_and_memory(plan)}{cost}."
        )
    how = f" (method: {plan.method})" if plan.method in _BY_NAME else ""
    return (
        f"{counted(count, 'agent')} send{'s' if count == 1 else ''} {counted(sum(plan.sent.values()), 'number')} "
        f"for {counted(plan.network.N, 'reading')}"
        f"{_rows_and_memory(plan)}{cost}{how}."
    )


def _cost(plan: Plan, errors: Mapping[str, TypicalError]) -> str:
    """By how much the public error variances grow; the worst is named where the sum would be of °C² and kW²."""
    public, growth = list(plan.network.public), times(1 - plan.utility)
    if len(public) > 1 and plan.network.public_scales:
        return f"the standard errors of {join_names(public)} grow {growth} on average"
    units = {plan.network.unit(name) for name in public}
    if len(public) == 1 or len(units) == 1:
        return f"the standard error of {join_names(public)}{' together' * (len(public) > 1)} grows {growth}"
    worst = max(public, key=lambda name: errors[name].variances)
    return f"the standard error of {worst}, which loses most, grows {times(errors[worst].variances)}"


def _rows_and_memory(plan: Plan) -> str:
    if not plan.network.is_stream:
        return ""
    total, most = sum(plan.kept.values()), max(plan.kept.values(), default=0)
    return f" per row, keeping {total} in memory (at most {most} at one agent)"


def _on_a_stream(plan: Plan, name: str) -> tuple[str, str]:
    """How the error on a private parameter grows before later rows arrive, and with gaps."""
    if name in plan.detectability:
        return "", ""
    both = (plan.privacy_now.get(name), plan.privacy_with_gaps.get(name))
    now, gaps = ("" if each is None else times(1 + each) for each in both)
    return now, gaps


def _seen(plan: Plan, name: str) -> str:
    """AUC of a secret's change: what counts of it, since the growth of an error would mislead. Else nothing."""
    return f"AUC {plan.detectability[name].auc:.3f}" if name in plan.detectability else ""


def _private(plan: Plan, name: str) -> str:
    """What the table does not say of a private parameter: combinations, how a change is seen."""
    if name in plan.detectability:
        return f"{plan.detectability[name].in_words(plan.network.unit(name))}."
    gained, worst = plan.privacy[name], plan.worst_direction[name]
    said = []
    if np.isfinite(worst) and not np.isclose(worst, gained):
        numbers = counted(len(plan.network.private[name]), "number")
        said.append(f"the least protected combination of its {numbers} grows {times(1 + worst)}")
    if np.isinf(worst):
        said.append("it cannot be estimated from the messages")
    return f"{'; '.join(said)}." if said else ""


def promise_in_words(
    public: Sequence[str],
    utility: float,
    privacy: Mapping[str, float],
    constant: Mapping[str, float] | None = None,
    with_gaps: Mapping[str, float] | None = None,
    changes: Mapping[str, str] | None = None,
    helped: Mapping[str, float] | None = None,
) -> list[str]:
    """What a plan promises, to somebody who knows its names and numbers alone: one line for each parameter.

    constant:  of a plan for single rows, which part of the error of one row is left by many rows of a constant x.
    with_gaps: of a stream, the privacy around missed rows and at a start; empty where it was not computed.
    changes:   how surely the change of each secret is seen, in words: of these no growth is given.
    helped:    of a plan of sums, the privacy that is left if the worst one agent helps the centre.
    """
    one = "" if constant is None else "in one row "
    lost = "nothing is lost on" if -utility < NOTHING else f"the standard error grows {times(1 - utility)} on"
    lines = [f"{lost} {join_names(list(public))} (public)"]
    for name, gained in privacy.items():
        if changes and name in changes:
            lines.append(f"{name}: {changes[name]}")
            continue
        if np.isinf(gained):
            lines.append(f"{name} cannot be estimated from the messages of all agents")
        elif gained < NOTHING:
            lines.append(f"{name} is NOT protected: it can be estimated as well as from raw readings")
        else:
            lines.append(f"{one}the standard error of {name} grows {times(1 + gained)}")
            if helped is not None and name in helped:
                left = times(1 + max(helped[name], 0.0))
                lines[-1] += f"; it grows {left} if the worst one agent helps the centre"
            if constant is not None and name in constant:  # a statement is its author's, and may leave it out
                lines[-1] += (
                    f" ({ROWS_OF_CONSTANT} rows of a constant x leave {100 * constant[name]:.0f} % of that error"
                    + (" while no agent is missing)" if helped is not None else ")")
                )
        if with_gaps is not None and np.isfinite(with_gaps.get(name, np.inf)):
            lines[-1] += f"; {_AROUND_GAPS} at least {times(1 + with_gaps[name])}"
    return lines if with_gaps is None or with_gaps else [*lines, GAPS_ARE_NOT_COMPUTED]


def quality(plan: Plan) -> str:
    """How far from the best possible the plan can be."""
    if plan.gap == 0.0:
        return f"Optimal: no {'lossless design hides more' if plan.method == 'perfect' else 'design does better'}."
    if np.isinf(plan.gap):
        if plan.network.is_stream:
            return "Distance to the optimum: unknown; no bound is known for streams."
        if plan.method == "power":
            return "Distance to the best noise within the power: lost in rounding, since so much is hidden."
        return (
            "Distance to the optimum: not proved by the quick default bound. prove=True (--prove) tries harder, and "
            "may fail too."
        )
    share = f"{100 * plan.gap:.2g} %"
    if plan.method == "power":
        return f"Certified: no other noise within the power hides more than {share} better in total."
    kept = floors_in_proof(plan.proof, plan.targets, plan.floors)
    if plan.targets:
        least = 0.0 if plan.proof is None else float(np.sqrt(1 + plan.proof.loss)) - 1
        mine = float(np.sqrt(1 - plan.utility)) - 1
        return (
            f"Best possible {_within(mine / least - 1 if least > 0 else plan.gap)}: with any linear "
            f"design{that_keeps(kept)} the public standard error grows by {percent(least)} or more, here by "
            f"{percent(mine)}."
        )
    return (
        f"Best possible {_within(plan.gap)}: no linear design within the loss{that_keeps(kept)} hides everything "
        "better by more than that."
    )


def _within(gap: float) -> str:
    """How near the best possible a plan is proved to be."""
    if gap > _WIDE:
        return f"proved only to within a factor {1 + gap:.2g}"
    return f"to within {percent(gap)} (proved)"


def power_in_words(certificate: Certificate) -> list[str]:
    """How near the noise comes to the power that was allowed, one sentence; none where nothing limits it."""
    return [
        f"Noise power: {finding.what.removeprefix(NOISE_POWER)} comes nearest to its limit, {number(finding.found)} "
        f"of {number(finding.promised)} (variances added up over its readings)."
        for finding in certificate.findings
        if finding.what.startswith(NOISE_POWER)
    ]


def floors_in_proof(
    proof: Proof | None, targets: Mapping[str, float], floors: Mapping[str, float]
) -> tuple[str, ...]:
    """The parameters of which a proof asks for what is free and not for what was asked: it covers no other designs.

    targets: of the plan that is proved; empty where it was made for a loss.
    floors:  what it keeps of what is free.
    """
    if proof is None:
        return ()
    if targets:
        return tuple(
            name for name, asked in proof.privacy.items() if name in floors and asked > targets.get(name, 0.0)
        )
    return tuple(
        name for name, asked in proof.privacy.items() if asked <= floors.get(name, 0.0) * (1 + _ROUNDING)
    )


def that_keeps(names: Sequence[str]) -> str:
    """`` that keeps what is free of g and h``, to follow what it is said of; nothing where there are no names."""
    return f" that keeps what is free of {join_names(list(names))}" if names else ""


_GROWTHS = {
    "privacy of ": "standard error of {} grows",
    "target of ": "as was asked of {}",
    "every direction of ": "as was asked of every direction of {}",
    "no less than is free of ": "no less than is free, of {}",
}


def finding_in_words(what: str, public: str) -> str:
    """What was looked at, for a reader.

    what:   as the certificate or the verification of a folder calls it.
    public: the names of the public parameters, in words.
    """
    plain = {
        "utility": f"standard error of {public} grows",
        LOSS_ALLOWED: f"standard error of {public} may grow",
        DITHERED: "agents without dither",
        "grids": "grids are fine enough for the noise",
        "names, limits, resolution, step": "agent files match the network",
    }
    if what.startswith(NOISE_POWER):
        return f"noise added by {what.removeprefix(NOISE_POWER)}, nearest its limit (variance over all its readings)"
    if what.startswith(CHANGE_OF):
        return f"{what}: AUC of the best detector, at most"
    for beginning, words in _GROWTHS.items():
        if what.startswith(beginning):
            return words.format(what.removeprefix(beginning))
    return f"{what} is intact" if what.endswith(".json") else plain.get(what, what)


def growth_in_words(what: str, value: float) -> str:
    """Its figure, for a reader: ``3.19x``."""
    if what == "utility":
        return times(1 - value)
    if what == LOSS_ALLOWED or what.startswith(tuple(_GROWTHS)):
        return times(1 + value)
    if what.startswith(CHANGE_OF):
        return f"{Detector(value).auc:.3f}"
    return f"{value:g}"
