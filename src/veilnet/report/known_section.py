"""What the centre can know: public and private errors, before and after, and from the prior only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from veilnet._core.words import join_names, number
from veilnet.auditing.report import Row
from veilnet.bounds.detectability import Detectability, Detector
from veilnet.bounds.typical_errors import TypicalError, beside_errors
from veilnet.model.stream_size import GAPS_ARE_NOT_COMPUTED
from veilnet.plans.plan import Plan
from veilnet.report.audit_section import found_in_words
from veilnet.report.error_picture import error_picture, in_words
from veilnet.report.html import Html, details, element, join, paragraph, shown, table
from veilnet.report.words import fold, growth_of, names_of, what_it_means

MOST_CARDS = 12
_MEASURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("AUC", "auc", "{:.3f}".format),
    ("right", "accuracy", lambda part: f"{100 * part:.1f} %"),
    ("found", "power", lambda part: f"{100 * part:.1f} %"),
    ("µ", "mu", number),
)
_LESS = 0.9  # of the whole's variance: a part that is protected less than this is pointed out


def known_section(
    plan: Plan, errors: Sequence[TypicalError], broken: Mapping[str, Row] = MappingProxyType({})
) -> Html:
    """A card for each parameter, and all of them as one table; ``broken`` are findings against promises, by name."""
    when = ""
    if plan.network.is_stream:
        when = (
            " A stream: public errors are filtered (messages so far), private ones smoothed (all messages, "
            "later ones too)."
        )
    return join(
        [
            paragraph(
                "Each bar is the standard error (1σ) of the best possible estimate. A ",
                element("strong", "public"),
                " error should stay as small as that from raw readings. A ",
                element("strong", "private"),
                " error should become as large as that of guessing: larger is safer.",
                when,
            ),
            error_cards(errors, plan, broken),
            gaps_note(plan),
            details("All errors as a table", error_table(plan, errors)),
            _exposed(plan),
        ]
    )


def error_cards(
    errors: Sequence[TypicalError], plan: Plan, broken: Mapping[str, Row] = MappingProxyType({})
) -> Html:
    """One card for each parameter, the least protected private ones first where there are many."""
    private = sorted((each for each in errors if each.private), key=growth_of)
    public = sorted((each for each in errors if not each.private), key=lambda each: -growth_of(each))
    chosen = {
        each.name for each in [*public[: MOST_CARDS // 2], *private[: MOST_CARDS - min(len(public), 6)]]
    }
    chosen |= {each.name for each in errors if each.name in broken}
    cards = [_card(each, plan, broken.get(each.name)) for each in errors if each.name in chosen]
    left = len(errors) - len(cards)
    folded = paragraph(
        f"{left} more parameters stand in the table below: those that changed most, or are least protected, are "
        "shown here.",
        class_="soft",
    )
    rows = map(paragraph, beside_errors(errors))
    return join([element("div", *cards, class_="grid"), *rows, folded if left else None])


def gaps_note(plan: Plan) -> Html | None:
    """How large private errors of a stream are at least around a missed row and at a start."""
    if not plan.privacy_with_gaps:
        return paragraph(GAPS_ARE_NOT_COMPUTED, class_="gaps") if plan.network.is_stream else None
    around_gaps = [
        f"{shown(name)} {fold(float(np.sqrt(1 + least)))}"
        for name, least in sorted(plan.privacy_with_gaps.items(), key=lambda each: each[1])[:MOST_CARDS]
        if name not in plan.detectability
    ]
    if not around_gaps:
        return None
    return paragraph(
        f"Around a missed row and at a start, private errors grow at least: {join_names(around_gaps)}.",
        class_="gaps",
    )


def _card(error: TypicalError, plan: Plan, broken: Row | None) -> Html:
    seen = plan.detectability.get(error.name) if error.private else None
    kind = "private" if error.private else "public"
    role = f"{kind}: {'must stay hard to estimate' if error.private else 'may be known'}"
    if seen is not None:
        role = "private: its change must stay hard to see"
    heading = element("h3", shown(error.name), " ", element("span", f"({role})", class_="role"))
    alarm = None if broken is None else paragraph(f"BROKEN: {found_in_words(broken)}.", class_="alarm")
    if seen is not None:  # of a secret the growth of an error misleads
        return element("div", heading, alarm, *_seen(seen, error), class_="card private")
    if broken is not None:
        return element(
            "div",
            heading,
            alarm,
            error_picture(error, measured=_measured(broken, plan)),
            class_=f"card {kind}",
        )
    meaning = what_it_means(error, plan.worst_direction.get(error.name, np.inf))
    return element(
        "div",
        heading,
        error_picture(error),
        paragraph(meaning, class_="alarm" if "NOT protected" in meaning else "soft"),
        class_=f"card {kind}",
    )


def _measured(broken: Row, plan: Plan) -> float | None:
    """The typical error that an attack measured, where it measured errors."""
    rows = len(plan.network.private.get(str(broken.figures.get("parameter")), ()))
    errors = "guessing" in broken.figures and isinstance(broken.found, int | float)
    return float(np.sqrt(float(broken.found or 0.0) / rows)) if errors and rows else None


def _seen(seen: Detectability, error: TypicalError) -> list[Html]:
    """How surely the best detector sees a change: from raw readings, from what is sent, and by guessing."""
    spans = [("one row", seen)]
    if seen.lasting is not None:
        spans.append((f"{seen.rows} rows", seen.lasting))
    rows = [
        [
            f"{what}, {when}",
            *(show(getattr(each, measure)) for each in (found.raw, found.sent, Detector(0.0))),
        ]
        for when, found in spans
        for what, measure, show in _MEASURES
    ]
    what = seen.what(error.unit)
    columns = ("best detector", "raw", "sent", "guess")
    found = in_words(error)
    return [
        table(f"How surely {what} is seen", columns, rows, numeric=(1, 2, 3), class_="seen"),
        paragraph(
            "Right: how often, where both cases are equally likely. Found: how many changes, with 1 % false alarms. "
            f"µ is of differential privacy; ε in one row is {number(seen.epsilon)} at δ {seen.delta:g}. Its size is "
            f"known to {found['sent']} ({found['raw']} from raw readings, "
            f"{found['prior only']} by guessing).",
            class_="soft",
        ),
    ]


def error_table(plan: Plan, errors: Sequence[TypicalError]) -> Html:
    """Every parameter with its three errors, and by how much variance and error grow."""
    rows = []
    for error in errors:
        words = in_words(error)
        seen = plan.detectability.get(error.name)
        rows.append(
            [
                shown(error.name),
                "private" if error.private else "public",
                words["raw"],
                words["sent"],
                words["prior only"],
                fold(growth_of(error))
                if seen is None or not error.private
                else f"change seen with AUC {seen.auc:.3f}",
            ]
        )
    several = [
        each.name for each in errors
        if len(plan.network.private.get(each.name, plan.network.public.get(each.name, ()))) > 1
    ]  # fmt: skip
    note = None
    if several:
        note = paragraph(
            f"{names_of(several)}: RMS over several numbers.",
            class_="soft",
        )
    columns = ("parameter", "", "raw", "sent", "prior only", "error")
    caption = "Standard errors (1σ) of the best estimates"
    return join([table(caption, columns, rows, numeric=(2, 3, 4, 5), class_="errors"), note])


def _exposed(plan: Plan) -> Html | None:
    """Private parameters of which some direction is much less protected than the whole."""
    found = [
        f"a part of {shown(name)} whose error is {fold(float(np.sqrt(1 + worst)))}"
        for name, worst in plan.worst_direction.items()
        if 1 + worst < _LESS * (1 + plan.privacy[name]) and name not in plan.detectability
    ]
    if not found:
        return None
    return paragraph(
        "Of a parameter that is several numbers, the error above is a mean. Less protected than their mean: "
        f"{join_names(found)}, compared with raw readings."
    )
