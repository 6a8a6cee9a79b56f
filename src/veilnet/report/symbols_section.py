"""A plan of symbols on the page: what nobody can guess, what each agent says, and how evidence adds up over rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from veilnet._core.words import at_most, counted, join_names, percent, three_digits
from veilnet.report.error_picture import stems_picture
from veilnet.report.html import Html, details, element, join, paragraph, shown, table
from veilnet.report.svg import Frame, figure, label, path, picture
from veilnet.report.symbols_picture import curve_figure, symbols_picture
from veilnet.report.words import at_least
from veilnet.symbols.agent import SymbolAgent
from veilnet.symbols.certificate import SymbolCertificate
from veilnet.symbols.plan import SymbolPlan

_ROWS = (1, 2, 5, 10, 20, 50, 100, 200)  # of one person, seen together


def symbols_headline(plan: SymbolPlan) -> str:
    """What the plan promises, in one or two sentences."""
    kind = "accuracy" if plan.centre.classes else "R²"
    known = (
        f"The centre learns {shown(plan.centre.public)} with {kind} {three_digits(plan.score)} "
        f"({three_digits(plan.raw_score)} from raw readings)"
    )
    return f"{known}; {join_names([_promised(each) for each in plan.certificate.values()])}."


def _promised(each: SymbolCertificate) -> str:
    if each.guessed is not None:
        return (
            f"no attacker names {shown(each.name)} right in more than {at_most(each.guessed)} of rows "
            f"({three_digits(each.chance)} by guessing)"
        )
    return (
        f"no attacker errs by less than {at_least(each.error or 0.0)} on {shown(each.name)} "
        f"({three_digits(each.chance)} by guessing)"
    )


def symbols_lead(plan: SymbolPlan) -> str:
    """For whom the plan is, and what its promise stands on."""
    private = join_names([shown(name) for name in plan.certificate])
    one = next(iter(plan.certificate.values()))
    rows = f"{one.rows:,} rows" + ("" if one.blocks == one.rows else f" in {one.blocks:,} independent blocks")
    return (
        f"This plan is for {counted(len(plan.agents), 'agent')}, each of which sends one of a few symbols. "
        f"The fusion centre may know {shown(plan.centre.public)}; it must not learn {private}. The promise was "
        f"counted on {rows} that chose nothing. It assumes no model, and holds for any attacker, learned or not."
    )


def promise_cards(plan: SymbolPlan) -> Html:
    """The public score against raw readings and guessing, and of each private quantity what is promised."""
    public = shown(plan.centre.public)
    scores = {
        "raw": plan.raw_score,
        "sent": plan.score,
        "guessing": _blind_score(plan),
    }
    measure = "accuracy" if plan.centre.classes else "R²"
    meaning = f"Share of rows held out in which it is named right ({measure})."
    if not plan.centre.classes:
        meaning = "R²: the part of its variance on rows held out that the estimate explains."
    elif plan.calibration is not None:
        meaning += f" Stated chances are off by {three_digits(plan.calibration)} on average (calibration)."
    cards = [_card(public, "public", "may be known", _stems(f"{measure} of {public}", scores), meaning)]
    for each in plan.certificate.values():
        cards.append(_card(shown(each.name), "private", *_private_parts(each)))
    return element("div", *cards, class_="grid")


def _stems(what: str, values: Mapping[str, float], words: Mapping[str, str] | None = None) -> Html:
    said = {name: three_digits(value) for name, value in values.items()} | dict(words or {})
    title = f"{what}: " + ", ".join(f"{name} {text}" for name, text in said.items())
    return stems_picture(title, values, said, key=what)


def _card(name: str, kind: str, role: str, drawn: Html, words: str) -> Html:
    heading = element("h3", name, " ", element("span", f"({kind}: {role})", class_="role"))
    return element("div", heading, drawn, paragraph(words, class_="soft"), class_=f"card {kind}")


def _private_parts(each: SymbolCertificate) -> tuple[str, Html, str]:
    """(role, picture, words) of one private quantity."""
    name = shown(each.name)
    if each.guessed is None:
        values = {"any attacker": each.error or 0.0, "guessing": each.chance}
        words = "Root mean square error: no rule whatever has a smaller one. Larger is safer."
        drawn = _stems(
            f"Least error on {name}", values, {"any attacker": f"{at_least(each.error or 0.0)} at least"}
        )
        return "must stay hard to estimate", drawn, words
    values = {"any attacker": each.guessed, "guessing": each.chance}
    words = "Share of rows in which anybody is right, at most. "
    if each.auc is not None:
        words += f"Of its two values no detector has an AUC above {at_most(each.auc)}. "
    words += f"With even base rates: {at_most(each.at('even'))} at most."
    drawn = _stems(
        f"How often right about {name}", values, {"any attacker": f"{at_most(each.guessed)} at most"}
    )
    return "must stay hard to guess", drawn, words


def _blind_score(plan: SymbolPlan) -> float:
    """Of who hears nothing: the share of the most common class; R² 0."""
    totals = plan.centre.table.sum(axis=0)
    return float(totals.max() / totals.sum()) if plan.centre.classes else 0.0


def choice_section(plan: SymbolPlan) -> Html:
    """What else could be asked: the public score against what is promised."""
    points = plan.curve[:, [1, 0]].tolist()
    others = [shown(name) for name in list(plan.certificate)[1:]]
    beside = f" What is promised of {join_names(others)} falls and rises with it." if others else ""
    caption = (
        "The other points are what the rows that learned let expect: rows held out will show a little less."
    )
    return join(
        [
            paragraph(
                "Less to guess costs some of the public score. To have another point, learn anew with that as "
                f"'guessed': choosing by this curve costs no confidence.{beside}"
            ),
            curve_figure(plan, [(x, y) for x, y in points], caption),
        ]
    )


# --- what each agent says


def says_section(plan: SymbolPlan) -> Html:
    """For each agent its symbols in words, and a picture of what each one says of the public quantity."""
    sizes = [agent.symbols for agent in plan.agents.values()]
    meaning = (
        f"{counted(len(sizes), 'agent')} send{'s' if len(sizes) == 1 else ''} one symbol of "
        f"{join_names(sorted({str(size) for size in sizes}, key=int))} in each row, and nothing of a reading that is "
        "missing or outside the range of the calibration."
    )
    legend = (
        "Each row is a symbol, each column a value: the larger the square, the more likely that value is where the "
        "symbol was sent."
        if plan.centre.classes
        else "Each row is a symbol: a mark at the mean where it was sent, and a standard deviation to either side."
    )
    cards = [_says(plan, place, agent) for place, agent in enumerate(plan.agents.values())]
    return join([paragraph(meaning), paragraph(legend, class_="soft"), element("div", *cards, class_="grid")])


def _says(plan: SymbolPlan, place: int, agent: SymbolAgent) -> Html:
    name, seen = shown(agent.agent), plan.centre.seen[agent.agent]
    often = seen / max(seen.sum(), 1.0)
    meanings = [*(shown(each) for each in agent.meanings), "nothing is sent"]
    rows = [
        (str(k) if k < agent.symbols else "silence", meaning, percent(float(often[k])))
        for k, meaning in enumerate(meanings)
    ]
    words = f"From {join_names([shown(each) for each in agent.names])}."
    if agent.keep < 1:
        words += (
            f" With chance {percent(1 - agent.keep)} one drawn evenly is sent instead: ε {agent.epsilon:.3g}."
        )
    if agent.symbols == 1:
        words += " It always sends the same symbol, so it says nothing."
    listed = table(f"What {name} says", ("symbol", "meaning", "how often"), rows, numeric=(2,))
    drawn = None if agent.symbols == 1 else symbols_picture(plan, place, agent)
    return element("div", element("h4", name), paragraph(words, class_="soft"), drawn, listed, class_="card")


# --- many rows, service, attackers, the certificate


def rows_section(plan: SymbolPlan) -> Html:
    """How often an attacker is right who sees several rows of one value, and what that assumes."""
    curves = {
        name: each.over_rows(_ROWS) for name, each in plan.certificate.items() if each.guessed is not None
    }
    meaning = paragraph(
        "The promise is about one row. Evidence adds up over rows of one person, and of several rows nothing is "
        "promised. The curve assumes that rows are drawn independently given the value, with even base rates, and an "
        "attacker who knows the counted law exactly."
    )
    if not curves:
        return paragraph("The promise is about one row: of several rows of one value nothing is promised.")
    frame = Frame((0.0, math.log10(_ROWS[-1])), (0.0, 1.0), size=(440.0, 250.0), right=70, bottom=44)
    marks = [*frame.levels(), *frame.scale([(math.log10(count), str(count)) for count in _ROWS])]
    marks.append(label(frame.x(1.15), frame.height - 8, "rows of one value", anchor="middle", class_="small"))
    for name, curve in curves.items():
        points = [frame.at(math.log10(count), right) for count, right in curve.items()]
        marks.append(path(points, "curve"))
        marks += [element("circle", cx=x, cy=y, r=2.5, class_="dot") for x, y in points]
        marks.append(label(points[-1][0] + 6, points[-1][1] + 4, shown(name, most=10), class_="small"))
    rows = [[str(count), *(three_digits(curve[count]) for curve in curves.values())] for count in _ROWS]
    names = [shown(name) for name in curves]
    same = table("Share of right guesses", ("rows", *names), rows, numeric=range(1, len(names) + 1))
    title = f"Share of right guesses of {join_names(names)} against rows seen"
    caption = "An estimate under that assumption, no promise; guessing is " + ", ".join(
        f"{three_digits(1 / len(getattr(each, 'classes', ())))} of {shown(name)}"
        for name, each in plan.certificate.items()
        if name in curves
    ) + "."  # fmt: skip
    return join(
        [meaning, figure(picture(title, frame.width, frame.height, marks), caption, same, class_="wide")]
    )


def service_section(audit: Mapping[str, Any] | None) -> Html:
    """Whether the law in service is the counted one, as far as that is known."""
    words = (
        "The promise holds while agents send by the law that was counted. The centre compares it as they send: "
        "'veilnet fuse' once a file, a live centre every 500 messages. Where it differs, the promise is void until "
        "the plan is learned anew."
    )
    drift = None if audit is None else audit.get("drift")
    if drift is None:
        return paragraph(words, " Whether it still is, is not known here.")
    changed = [shown(name) for name in drift.get("changed", [])]
    if not changed:
        return paragraph(words, " On the audit's rows it is, as far as so many rows can show.")
    return join(
        [
            paragraph(words),
            paragraph(
                f"VOID: on the audit's rows {join_names(changed)} sent by another law.", class_="alarm"
            ),
        ]
    )


def attacks_section(audit: Mapping[str, Any] | None) -> Html:
    """What attackers that learned from messages got."""
    if audit is None:
        return paragraph(
            "No attack was tried for this report. 'veilnet audit plan/ --data later.csv --json' tries six attackers; "
            "save what it prints as audit.json in the plan's folder."
        )
    rows = [
        (
            shown(str(each["private"])),
            shown(str(each["attacker"])),
            str(each["rows"]),
            three_digits(each["right"]) if each["error"] is None else f"±{three_digits(each['error'])}",
            "–" if each["promised"] is None else three_digits(each["promised"]),
            {True: "yes", False: "NO"}.get(each["ok"], "–"),
        )
        for each in audit["attacks"]
    ]
    columns = ("private", "attacker", "rows seen", "right, or off by", "promised", "holds")
    made = table("Attackers that learned from what agents send", columns, rows, numeric=(2, 3, 4))
    return made if len(rows) <= 20 else details(f"{len(rows)} attacks", made)


def symbols_certificate(plan: SymbolPlan) -> Html:
    """What was counted, and what follows from it."""
    rows = [
        (
            shown(each.name),
            at_least(each.error or 0.0) if each.guessed is None else at_most(each.guessed),
            "right at most" if each.guessed is not None else "error at least",
            three_digits(each.chance),
            *(f"{many:,}" for many in (each.rows, each.blocks, each.cells)),
            f"{each.confidence:.4g}",
        )
        for each in plan.certificate.values()
    ]  # fmt: skip
    columns = ("private", "promise", "", "guessing", "rows", "blocks", "cells", "confidence")
    one = next(iter(plan.certificate.values()))
    doubt = (
        " Rows were taken to be independent; the promise is as good as that."
        if one.blocks == one.rows
        else ""
    )
    return join(
        [
            paragraph(
                "Every promise was recomputed from the counts by another route, and confirmed; 'veilnet verify' does "
                f"so again. All hold together with confidence {plan.confidence:.4g}.{doubt}"
            ),
            table("What was counted, and what follows", columns, rows, numeric=(1, 3, 4, 5, 6, 7)),
            paragraph(
                "Not promised: several rows of one person, another population, values that are not in the log, base "
                "rates other than the log's (a certificate computes those).",
                class_="soft",
            ),
        ]
    )
