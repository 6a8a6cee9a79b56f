"""What each agent sends, what is noisy, what is withheld, and how much it reveals about what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.words import counted, percent
from veilnet.centre.contributions import growth_when_silent, shares_of_knowledge
from veilnet.plans.plan import Plan
from veilnet.report.agent_picture import (
    MOST_READINGS,
    AgentPicture,
    sending_of,
    sending_picture,
    sending_table,
)
from veilnet.report.html import Cell, Html, details, element, join, paragraph, shown, table
from veilnet.report.svg import figure, label, line, picture
from veilnet.report.words import fold, sending_in_words

MOST_AGENTS = 8  # shown with a picture
MOST_FOLDED = 8  # with a picture, folded
MOST_PARAMETERS = 8  # with a picture of who tells how much of them
_ROWS_OPEN = 20  # a longer table of agents is folded
_SILENCE_WORK = 4e8  # agents times states cubed, up to which each agent of a stream is silenced once


@dataclass(frozen=True, eq=False)
class Contributions:
    """How much each agent reveals about each parameter.

    parts:      parameter -> agent -> its part of what the centre knows (with that known beforehand), or, of a stream,
                how many-fold the error is when it keeps silent. Empty where nobody tells anything of it.
    private:    names of the private ones among them.
    of_silence: whether it is the latter.
    """

    parts: Mapping[str, Mapping[str, float]]
    private: frozenset[str]
    of_silence: bool

    @property
    def least(self) -> float:
        """The figure of an agent that tells nothing."""
        return 1.0 if self.of_silence else 0.0

    def weight(self, agent: str) -> float:
        """How much an agent matters: the most it reveals about anything."""
        least = self.least
        return max((abs(parts.get(agent, least) - least) for parts in self.parts.values()), default=0.0)


def contributions_of(plan: Plan) -> Contributions:
    """Parts of what is known, for rows; what silence would do, for streams (none where that would take too long)."""
    network = plan.network
    private = frozenset(network.private)
    if network.is_stream:
        states = network.L + sum(plan.kept.values())
        active = [agent for agent, sent in plan.sent.items() if sent]
        if len(active) * float(states) ** 3 > _SILENCE_WORK:
            return Contributions({}, private, True)
        public, hidden = growth_when_silent(network, plan.sanitizers, active)
        return Contributions(public | hidden, private, True)
    public_shares, private_shares = shares_of_knowledge(network, plan.sanitizers)
    parts = {
        name: {} if shares is None else {BEFOREHAND: shares.beforehand, **shares.agents}
        for name, shares in (public_shares | private_shares).items()
    }
    return Contributions(parts, private, False)


def agents_section(plan: Plan) -> Html:
    """Who tells how much of what, the agents that matter one by one, and all of them as a table."""
    found = contributions_of(plan)
    order = sorted(plan.sanitizers, key=lambda agent: -found.weight(agent))
    sent = plan.sent
    silent = [agent for agent in order if sent[agent] == 0]
    talking = [agent for agent in order if sent[agent] > 0]
    cards = [_card(plan, agent) for agent in talking[:MOST_AGENTS]]
    folded = [_card(plan, agent) for agent in talking[MOST_AGENTS : MOST_AGENTS + MOST_FOLDED]]
    left = len(talking) - len(cards) - len(folded)
    quiet = ""
    if silent:
        some = ", ".join(shown(agent) for agent in silent[:6])
        more = f" and {len(silent) - 6} more" if len(silent) > 6 else ""
        quiet = f" {some}{more} send{'s' if len(silent) == 1 else ''} nothing at all."
    return join(
        [
            paragraph(_in_numbers(plan), quiet),
            _who_tells(found, order),
            element(
                "h3", "What the agents send" if left + len(folded) == 0 else "The agents that matter most"
            ),
            _legend(plan) if cards else None,
            element("div", *cards, class_="grid") if cards else None,
            details(f"{len(folded)} more agents", element("div", *folded, class_="grid")) if folded else None,
            paragraph(
                f"{left} agents that matter less have no picture: they stand in the table, and veilnet inspect says "
                "in words what each of them sends.",
                class_="soft",
            )
            if left
            else None,
            _all_agents(plan, found),
        ]
    )


def _in_numbers(plan: Plan) -> str:
    count, sent = len(plan.sanitizers), sum(plan.sent.values())
    rows = " in each row" if plan.network.is_stream else ""
    return (
        f"{counted(count, 'agent')} send{'s' if count == 1 else ''} {counted(sent, 'number')} for "
        f"{counted(plan.network.N, 'reading')}{rows}."
    )


def _legend(plan: Plan) -> Html:
    memory = ""
    if any(plan.kept.values()):
        memory = " Agents with a memory also mix in what they keep of earlier rows."
    return paragraph(
        "Each column is a number that is sent, each row a reading. The larger the square, the more the reading moves "
        f"the number; filled adds, hollow subtracts.{memory}",
        class_="soft",
    )


def _who_tells(found: Contributions, order: list[str]) -> Html | None:
    parts = {name: each for name, each in found.parts.items() if each}
    if not parts and found.of_silence:
        return paragraph(
            "Who tells how much of what is left out: this stream is too large to try what happens when each agent "
            "keeps silent.",
            class_="soft",
        )
    if not parts:
        return None
    chosen = sorted(parts, key=lambda name: name in found.private)
    public = [name for name in chosen if name not in found.private][: MOST_PARAMETERS // 2]
    private = [name for name in chosen if name in found.private][: MOST_PARAMETERS - len(public)]
    cards = [_who_tells_card(found, name, order) for name in [*public, *private]]
    left = len(parts) - len(cards)
    tail = f" {left} more parameters have no picture." if left else ""
    meaning = (
        "How large the centre's error were if one agent kept silent, all others sending as planned. What matters for "
        "a public parameter is needed; what matters for a private one is a leak."
        if found.of_silence
        else "From whom the centre has what it knows of each parameter after all messages. The parts always add up "
        "to 100 %, also where all of it together is next to nothing: how much the centre knows of a private "
        "parameter is its error above; here, only from whom."
    )
    return join(
        [
            element("h3", "Who tells how much of what"),
            paragraph(meaning, tail, class_="soft"),
            element("div", *cards, class_="grid"),
        ]
    )


def _who_tells_card(found: Contributions, name: str, order: list[str]) -> Html:
    parts = found.parts[name]
    ranked = sorted((a for a in order if a in parts), key=lambda agent: -abs(parts[agent]))
    shown_parts = {BEFOREHAND: parts[BEFOREHAND]} if BEFOREHAND in parts and parts[BEFOREHAND] > 0 else {}
    shown_parts |= {agent: parts[agent] for agent in ranked[:MOST_AGENTS]}
    others = ranked[MOST_AGENTS:]
    if others and not found.of_silence:
        shown_parts[f"{len(others)} others"] = float(sum(parts[agent] for agent in others))
    kind = "private" if name in found.private else "public"
    note = f"{len(others)} agents that matter less are left out." if others and found.of_silence else None
    return element(
        "div",
        element("h4", shown(name), " ", element("span", f"({kind})", class_="role")),
        figure(
            share_picture(name, shown_parts, of_silence=found.of_silence),
            note,
            share_table(name, shown_parts, of_silence=found.of_silence),
        ),
        class_=f"card {kind}",
    )


def _card(plan: Plan, agent: str) -> Html:
    sanitizer = plan.sanitizers[agent]
    rows, noisy = sanitizer.normal
    sending = sending_of(plan.network, agent, sanitizer)
    words = sending_in_words(
        len(rows), int(np.sum(~noisy)), int(np.sum(noisy)), sanitizer.readings,
        kept=sanitizer.order if plan.network.is_stream else None,
    )  # fmt: skip
    return element(
        "div",
        element("h4", shown(agent)),
        paragraph(words, class_="soft"),
        figure(sending_picture(sending), _left_out(sending), sending_table(sending)),
        class_="card",
    )


def _left_out(sending: AgentPicture) -> str | None:
    readings, numbers = sending.left_out
    parts = []
    if readings:
        parts.append(f"the {MOST_READINGS} readings that weigh most; {readings} more are left out")
    if numbers:
        parts.append(f"{numbers} more numbers are left out")
    text = f"Shown: {'; '.join(parts)}." if parts else ""
    if sending.later:
        text += f" A reading still shows in what is sent {sending.later} rows later."
    return text.strip() or None


def _all_agents(plan: Plan, found: Contributions) -> Html:
    """One row for each agent; headings sort it where scripts run."""
    chosen = [name for name, parts in found.parts.items() if parts][:MOST_PARAMETERS]
    last = "keeps" if plan.network.is_stream else "withheld"
    columns = ["agent", "readings", "combinations of them sent exactly", "with noise", last]
    columns += [f"{'if silent: ' if found.of_silence else 'part of '}{shown(name)}" for name in chosen]
    shown_as = fold if found.of_silence else percent
    rows = []
    for agent, sanitizer in plan.sanitizers.items():
        sent, noisy = sanitizer.normal
        kept = sanitizer.order if plan.network.is_stream else sanitizer.readings - len(sent)
        cells = [str(sanitizer.readings), str(int(np.sum(~noisy))), str(int(np.sum(noisy))), str(kept)]
        known = [found.parts[name].get(agent) for name in chosen]
        # "12 % larger" is less than "3.2x": words do not sort as what they say.
        parts = [Cell("–", found.least) if each is None else Cell(shown_as(each), each) for each in known]
        rows.append([shown(agent), *cells, *parts])
    caption = f"All {len(rows)} agents"
    made = table(caption, columns, rows, numeric=range(1, len(columns)), class_="sortable agents")
    if len(rows) <= _ROWS_OPEN:
        return made
    return details(f"All {len(rows)} agents as a table", element("div", made, class_="long"))


BEFOREHAND = "known beforehand"
_WIDTH, _LEFT, _RIGHT, _ROW = 340.0, 128.0, 84.0, 24.0
_CHARACTERS = 18


def share_picture(parameter: str, parts: Mapping[str, float], *, of_silence: bool) -> Html:
    """A bar for each agent: its part of what is known, or how far the error grows when it keeps silent.

    parts: by agent, of one; or how many-fold the error is. What is known beforehand is hollow.
    """
    texts = {name: (fold if of_silence else percent)(part) for name, part in parts.items()}
    beyond = {name: part - 1 if of_silence else part for name, part in parts.items()}
    most = max([1e-3 if of_silence else 1e-9, *(abs(each) for each in beyond.values() if np.isfinite(each))])
    lengths = {name: min(each, 1.1 * most) for name, each in beyond.items()}
    longest = max([most, *lengths.values()])
    title = f"{_caption(parameter, of_silence)}: " + _listed(texts)
    return _bars(title, lengths, texts, most=longest, key=parameter)


def share_table(parameter: str, parts: Mapping[str, float], *, of_silence: bool) -> Html:
    """The same as a table."""
    rows = [(shown(name), (fold if of_silence else percent)(part)) for name, part in parts.items()]
    columns = ("if this agent kept silent", "error") if of_silence else ("from", "part")
    return table(_caption(parameter, of_silence), columns, rows, numeric=(1,))


def _caption(parameter: str, of_silence: bool) -> str:
    if of_silence:
        return f"Error on {shown(parameter)} if one agent kept silent"
    return f"Where knowledge of {shown(parameter)} comes from"


def _bars(
    title: str, lengths: Mapping[str, float], texts: Mapping[str, str], *, most: float, key: str
) -> Html:
    reach = _WIDTH - _LEFT - _RIGHT
    marks = []
    for place, (name, length) in enumerate(lengths.items()):
        y = _ROW * (place + 0.5) + 2
        end = _LEFT + reach * min(abs(length) / most, 1.0)
        kind = "minus" if name == BEFOREHAND or length < 0 else "plus"
        marks.append(label(_LEFT - 8, y + 4.5, shown(name, most=_CHARACTERS), anchor="end"))
        if end - _LEFT > 0.5:
            marks.append(element("rect", x=_LEFT + 1, y=y - 6, width=end - _LEFT, height=12, class_=kind))
        marks.append(label(end + 8, y + 4.5, texts[name]))
    height = _ROW * len(lengths) + 4
    return picture(title, _WIDTH, height, [line(_LEFT, 0, _LEFT, height, "axis"), *marks], key=key)


def _listed(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{shown(name)} {text}" for name, text in texts.items()) + "."
