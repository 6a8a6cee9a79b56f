"""Rows on plans of sums: masks put to the test, lies of a centre played to members, and whom it may leave out.

Masks. Members run the rounds in memory, each with what it would send of simulated readings. If masks do what they
should, each of these is uniform modulo 2^k and independent of every message, from epoch to epoch anew: a member's
masked message; the same less its own mask, which the others reveal; what either differs by from the epoch before;
what two members' differ by; and the sum of all, before own masks are taken off. Bits of a uniform number are fair,
and so is the product of one with its neighbour, or with any bit of a message. A sum of n fair signs over √n is
sub-Gaussian with proxy 1 (Hoeffding, 1963), so that every p-value is a bound at every n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import counted, join_names
from veilnet.agent.membership import Membership
from veilnet.auditing.attack.lying_centre import LIES, leaked_more
from veilnet.auditing.deployed.deployment import member_messages
from veilnet.auditing.measures import in_units
from veilnet.auditing.row import Judgement, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import subgaussian_p
from veilnet.auditing.worlds import world_of
from veilnet.bounds.typical_errors import ROWS_OF_CONSTANT
from veilnet.plans.plan import Plan
from veilnet.sums.collusion import left_by_turns, worst_left_out
from veilnet.sums.masks import Words, summed_streams
from veilnet.sums.rehearsal import Rehearsal
from veilnet.sums.rounds import SumAgent
from veilnet.sums.terms import Terms

SECTION = Section.SUMS.heading
EPOCHS = 400  # in which masks are put to the test
_MOST_MASKING, _MOST_LIED_TO = 12, 7  # members of larger groups are represented by so many
_TESTS = {
    "masked messages are uniform": "uniform",
    "masked messages are independent of messages": "independent",
}


def sum_rows(plan: Plan, chance: float, seed: int, advance: Callable[[float], None]) -> list[Row]:
    """The rows of every group of a plan; none of a plan without sums."""
    groups = plan.network.members
    rows: list[Row] = []
    for done, name in enumerate(groups):
        masking, lied_to = (_terms(plan, name, most) for most in (_MOST_MASKING, _MOST_LIED_TO))
        trial = world_of(plan.network).learnable.trial(plan.sanitizers)
        readings = trial.draw(EPOCHS, np.random.default_rng([seed, 9])).readings
        messages = member_messages(plan, name, readings.reshape(-1, readings.shape[-1])[:EPOCHS])
        few = {agent: messages[agent] for agent in masking.members}
        rows += mask_rows(masking, few, chance / len(groups))
        advance((done + 0.7) / len(groups))
        rows += lie_rows(lied_to)
        advance((done + 1.0) / len(groups))
    return rows + _left_out_rows(plan) if groups else []


def _terms(plan: Plan, group: str, most: int) -> Terms:
    """The terms of a group, or of its first members where it is large: as many numbers and bits, a like threshold."""
    member = plan.members[plan.network.members[group].agents[0]]
    whole = member.summed
    assert whole is not None
    if len(whole.members) > most:
        needed = max(most // 2 + 1, -(-whole.threshold * most // len(whole.members)))
        whole = Membership(group, whole.members[:most], needed, whole.bits)
    return Terms("audit", whole, member.sent)


# --- masks


def mask_rows(
    terms: Terms, messages: Mapping[str, Words], chance: float, kind: type[SumAgent] = SumAgent
) -> list[Row]:
    """Whether masks hide messages (epochs, m) of each member; ``chance`` is the false-alarm rate of both rows."""
    masked, less_own = _masked(terms, messages, kind)
    under = _signs(np.stack([messages[name][1:] for name in terms.members]), terms.bits)
    others = np.roll(masked, 1, axis=0)
    looked_at = {
        "masked messages": masked[:, 1:],
        "less their own masks": less_own[:, 1:],
        "from epoch to epoch": masked[:, 1:] - masked[:, :-1],
        "the same, less their own masks": less_own[:, 1:] - less_own[:, :-1],
        "between two members": (masked - others)[:, 1:],
        "the sum of all": np.broadcast_to(masked.sum(axis=0, dtype=np.uint64), masked.shape)[:, 1:],
    }
    uniform, independent = {}, {}
    for what, words in looked_at.items():
        signs = _signs(words, terms.bits)  # (members, epochs, m, k)
        root = np.sqrt(signs.shape[1])
        pairs = signs[..., 1:] * signs[..., :-1]  # a small number has many bits like its sign
        uniform[what] = np.concatenate([signs.sum(axis=1), pairs.sum(axis=1)], axis=-1) / root
        independent[what] = np.einsum("atmj,atml->amjl", signs, under, optimize=True) / root
    return [
        _mask_row(f"{what}, {_whose(terms)}", scores, expected, chance / 2, len(under[0]))
        for (what, expected), scores in zip(_TESTS.items(), (uniform, independent), strict=True)
    ]


def _masked(terms: Terms, messages: Mapping[str, Words], kind: type[SumAgent]) -> tuple[Words, Words]:
    """(members, epochs, m): masked messages, and the same less the members' own masks."""
    group = Rehearsal(terms, "audit", kind)
    count = len(next(iter(messages.values())))
    both = np.zeros((2, len(terms.members), count, terms.numbers), dtype=np.uint64)
    for epoch in range(count):
        centre = group.begin(epoch + 1)
        group.tell(centre, centre.close_sharing(), {name: words[epoch] for name, words in messages.items()})
        for number, masked in centre.masked.items():
            own = summed_streams([group.seen.masked[number][number]], [], terms.numbers)
            both[:, number, epoch] = masked.words, masked.words - own
    return both[0], both[1]


def _whose(terms: Terms) -> str:
    return f"{len(terms.members)} members of {terms.membership.group}"


def _signs(words: Words, bits: int) -> Array:
    """The lowest k bits of words (..., m) as 1 or -1: (..., m, k)."""
    ones = words[..., None] >> np.arange(bits, dtype=np.uint64) & np.uint64(1)
    return np.asarray(2.0 * ones.astype(np.float64) - 1.0)


def _mask_row(what: str, scores: Mapping[str, Array], expected: str, chance: float, epochs: int) -> Row:
    tests = sum(each.size for each in scores.values())
    line = chance / tests
    smallest = {which: float(np.min(subgaussian_p(each))) for which, each in scores.items()}
    bad = [which for which, p in smallest.items() if p <= line]
    found_at = float(np.sqrt(2.0 * np.log(2.0 / line) / epochs))
    figures = {"epochs": epochs, "tests": tests, "line": line, "smallest p": min(smallest.values())}
    figures["correlation that is found"] = found_at
    shown = {
        "expected": expected,
        "found": f"not {expected}" if bad else expected,
        "tests of it": f"{tests:,}",
    }
    if not bad:
        return Row(SECTION, what, expected, expected, "ok", "", None, figures, shown)
    why = f"{join_names(bad)}: they show what is under the masks, or masks that were used before."
    return Row(SECTION, what, expected, f"not {expected}", "fail", why, None, figures, shown)


# --- lies, and members that are left out


def lie_rows(terms: Terms, kind: type[SumAgent] = SumAgent) -> list[Row]:
    """A row for each lie of a centre."""
    size, rows = len(terms.members), []
    for lie in LIES:
        found, refused = leaked_more(terms, lie, kind)
        shown = {
            "the centre learns more": found or "nothing",
            "who notices": f"{refused} of {counted(size, 'member')}",
            "colluders": f"up to {terms.colluders}",
        }
        verdict: Judgement = "fail" if found else "ok"
        why = "A member answers what it must not." if found else ""
        figures = {"members": size, "threshold": terms.threshold, "colluders": terms.colluders}
        what = f"a centre that {lie}, {_whose(terms)}"
        rows.append(Row(SECTION, what, "nothing", found or "nothing", verdict, why, None, figures, shown))
    return rows


def _left_out_rows(plan: Plan) -> list[Row]:
    """What is left of privacy where the centre calls as many dropped as it may, alone and with one or two agents; and
    where x stays as it is, and it leaves out another member in each row.
    """
    network, units = plan.network, in_units(plan.network)
    staying = sum(group.threshold for group in network.members.values())

    def row(
        name: str,
        what: str,
        promised: float,
        found: float,
        out: str,
        who: tuple[str, ...],
        exact: bool | None,
    ) -> Row:
        growths = {"raw readings": 0.0, "whole sums (promised)": promised, "what it can know": found}
        figures = {} if exact is None else {"who": list(who), "exact": exact}
        why = "Found agent by agent, those left out counted as if they helped." if exact is False else ""
        shown = {"left out": out, "who helps": _named(who)}
        return units[name].row(SECTION, f"{name}, {what}", growths, why=why, figures=figures, shown=shown)

    rows = []
    for helping in range(min(3, staying)):
        helps = f", {counted(helping, 'agent')} help{'s' if helping == 1 else ''} it" if helping else ""
        what = f"the centre leaves out whom it likes{helps}"
        for name, each in worst_left_out(network, plan.sanitizers, helping).items():
            whole, out = plan.privacy[name], _named(each.dropped)
            rows.append(row(name, what, whole, each.privacy, out, each.agents, each.exact))
    turns = (left_by_turns(network, plan.sanitizers, ROWS_OF_CONSTANT, whole=each) for each in (True, False))
    of_whole, lacking = turns
    what = f"{ROWS_OF_CONSTANT} rows of a constant x, and another member is missing in each"
    return rows + [
        row(name, what, of_whole[name], found, "each in turn", (), None) for name, found in lacking.items()
    ]


def _named(agents: tuple[str, ...]) -> str:
    return join_names(list(agents)) if agents else "nobody"
