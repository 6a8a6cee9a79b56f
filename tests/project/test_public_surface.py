"""The public surface: the names that scripts call, each with a docstring that explains every parameter.

Oracles: the contract is written down here, not read from the package; signatures are read with ``inspect`` and
compared with the docstrings, and the reader of docstrings is itself tried on planted ones.
"""

from __future__ import annotations

import inspect
import pickle
import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet._core.frozen import derived
from veilnet.auditing import AuditReport, Row
from veilnet.calibration.outliers import Outlier
from veilnet.calibration.report import CalibrationReport, ParameterReport, ReadingReport
from veilnet.calibration.stream_model import Gain
from veilnet.calibration.stream_report import Carried, RowPromise, StreamReport
from veilnet.calibration.timeline import TimeReport
from veilnet.centre.contradictions import Contradiction
from veilnet.centre.drift import Change
from veilnet.plans.certificate import Certificate, Finding
from veilnet.plans.verification import Check
from veilnet.report.page import Report

# What scripts of other people call. Nothing may ever leave this set.
CONTRACT = {
    "Fusion", "Infeasible", "InvalidNetwork", "Network", "NotObservable", "Plan", "Prior", "Sanitizer",
    "VeilnetError", "audit", "bits_revealed", "check", "crlb", "design", "fit", "frontier", "privacy",
    "privacy_limit", "utility",
}  # fmt: skip
# What was added since: options and results that users name, and the rest of what they may catch or call.
ADDED = {
    "Audit", "Calibration", "ColouredNoise", "CommonNoise", "DifferentialPrivacy", "Doubt", "DoubtfulModel", "Drift",
    "Dynamics", "Estimate", "Frontier", "Point", "Stream",
    "InvalidPlan", "InvalidReading", "InvalidRequest", "Ledger", "LedgerCheck", "Memory", "MissingExtra", "Trials",
    "Accuracy", "AtLeast", "Auc", "Detectability", "Mu", "Power", "Secret", "Times", "Verdict", "WhatIf", "Worst",
    "detectability", "fit_report", "verify", "SymbolPlan", "SumGroups", "learn_symbols",
}  # fmt: skip
# What the contract says of the objects behind the names.
MEMBERS = {
    vn.Network: ("load", "save", "from_complex"),
    vn.Plan: (
        "utility", "privacy", "sanitizers", "method", "certificate", "network", "gap", "floors", "save", "load",
        "report",
    ),
    vn.Sanitizer: ("normalized", "as_noise", "save", "load", "sanitize", "stream"),
    vn.Stream: ("sanitize", "skip", "state"),
    vn.Fusion: ("estimate",),
    vn.Estimate: ("public", "covariance", "missing"),
    vn.Verdict: ("achievable", "ceiling", "limit", "blocking", "printed_theorem", "explain"),
    vn.Frontier: ("rows", "free", "plot", "table"),
    vn.Audit: ("rows", "ok"),
}  # fmt: skip
# Parameters by the names the contract calls them with, in the order they may be given without a name.
PARAMETERS = {
    "Network": ("observe", "noise", "public", "private", "prior"),
    "crlb": ("network", "sanitizers"),
    "utility": ("network", "sanitizers"),
    "privacy": ("network", "sanitizers", "worst"),
    "privacy_limit": ("network",),
    "bits_revealed": ("network", "sanitizers"),
    "check": ("network",),
    "fit": ("table", "agents", "public", "private"),
    "frontier": ("network", "privacy"),
    "audit": ("plan", "data"),
    "Sanitizer": ("compression", "noise"),
    "Fusion": ("plan",),
}
# What public functions return without a public name: read by users, so explained to them.
RETURNED = (
    AuditReport, CalibrationReport, Carried, Certificate, Change, Check, Contradiction, Finding, Gain, Outlier,
    ParameterReport, ReadingReport, Report, Row, RowPromise, StreamReport, TimeReport,
)  # fmt: skip
# Functions that hand their ** on to a constructor that refuses unknown names, and say so.
PASS_THROUGH = {"Sanitizer.replace", "Network.replace"}


def documented(name: str, docstring: str) -> bool:
    """Whether a docstring explains a parameter: by a line ``name: ...`` or ``one, name: ...``, or as ``name``."""
    entry = rf"^\s*(?:\w+, )*{re.escape(name)}(?:, \w+)*:\s+\S"
    return bool(re.search(entry, docstring, re.MULTILINE)) or f"``{name}``" in docstring


def callables() -> Iterator[tuple[str, Any, str]]:
    """(label, callable, docstring) of every public function, class and method, and of what they return."""
    things = {name: getattr(vn, name) for name in vn.__all__} | {kind.__name__: kind for kind in RETURNED}
    for name, thing in sorted(things.items()):
        if not inspect.isclass(thing):
            yield name, thing, inspect.getdoc(thing) or ""
        elif not issubclass(thing, Exception):
            yield name, thing, _with_bases(thing)
            for member, raw in vars(thing).items():
                method = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
                if not member.startswith("_") and inspect.isfunction(method):
                    yield f"{name}.{member}", method, inspect.getdoc(method) or ""


def _with_bases(kind: type) -> str:
    """The docstring of a class, and those of the classes it extends, whose fields it has too."""
    own = [vars(each).get("__doc__") or "" for each in kind.__mro__ if each.__module__.startswith("veilnet")]
    return "\n".join(inspect.cleandoc(text) for text in own if text)


CALLABLES = list(callables())


def parameters_of(called: Any) -> list[inspect.Parameter]:
    found = inspect.signature(called).parameters.values()
    return [parameter for parameter in found if parameter.name not in ("self", "cls")]


def test_the_names_are_those_of_the_contract_and_what_was_added() -> None:
    assert set(vn.__all__) == CONTRACT | ADDED
    assert not CONTRACT & ADDED
    assert sorted(vn.__all__) == list(vn.__all__) == dir(vn)
    assert set(vn._MODULE_OF) == set(vn.__all__)


@pytest.mark.parametrize("owner", MEMBERS, ids=lambda owner: owner.__name__)
def test_members_of_the_contract(owner: type) -> None:
    fields = getattr(owner, "__dataclass_fields__", {})
    missing = [name for name in MEMBERS[owner] if name not in fields and not hasattr(owner, name)]
    assert not missing


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_the_contract(name: str) -> None:
    found = [parameter.name for parameter in parameters_of(getattr(vn, name))]
    assert tuple(found[: len(PARAMETERS[name])]) == PARAMETERS[name]


@pytest.mark.parametrize(("label", "called", "docstring"), CALLABLES, ids=[label for label, *_ in CALLABLES])
def test_every_parameter_is_explained(label: str, called: Any, docstring: str) -> None:
    assert docstring, f"{label} has no docstring"
    assert not docstring.startswith(f"{label}("), f"{label} has only the docstring that dataclasses generate"
    unexplained = [each.name for each in parameters_of(called) if not documented(each.name, docstring)]
    assert not unexplained, f"{label}: the docstring does not explain {', '.join(unexplained)}"


@pytest.mark.parametrize(("label", "called", "_"), CALLABLES, ids=[label for label, *_ in CALLABLES])
def test_unknown_names_are_not_swallowed(label: str, called: Any, _: str) -> None:
    kinds = {parameter.kind for parameter in parameters_of(called)}
    assert inspect.Parameter.VAR_POSITIONAL not in kinds
    assert (inspect.Parameter.VAR_KEYWORD in kinds) == (label in PASS_THROUGH)


def test_what_is_passed_through_is_refused_when_unknown() -> None:
    with pytest.raises(TypeError, match="nosie"):
        vn.Sanitizer.raw(2).replace(nosie=1.0)


def test_properties_and_errors_have_docstrings() -> None:
    for name in vn.__all__:
        thing = getattr(vn, name)
        if not inspect.isclass(thing):
            continue
        assert vars(thing).get("__doc__"), name
        for member, raw in vars(thing).items():
            if not member.startswith("_") and isinstance(raw, property | cached_property | derived):
                assert inspect.getdoc(raw), f"{name}.{member}"


def test_errors_are_value_errors_of_one_family() -> None:
    errors = [getattr(vn, name) for name in vn.__all__ if _is_error(getattr(vn, name))]
    assert len(errors) == 8
    assert all(issubclass(error, vn.VeilnetError) and issubclass(error, ValueError) for error in errors)


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception) and not issubclass(thing, Warning)


def test_audit_takes_few_parameters_and_its_groups_are_frozen() -> None:
    assert len(parameters_of(vn.audit)) <= 10
    groups = (vn.WhatIf(releases=3), vn.Trials(), vn.DifferentialPrivacy(), vn.LedgerCheck("ledger.jsonl"))
    for group in groups:
        field = next(iter(group.__dataclass_fields__))
        with pytest.raises(AttributeError):
            setattr(group, field, None)
        assert pickle.loads(pickle.dumps(group)) == group


def test_limits_are_those_of_readings_alone() -> None:
    found = {
        label for label, called, _ in CALLABLES for each in parameters_of(called) if each.name == "limits"
    }
    assert found == {"Network", "Sanitizer", "fit", "fit_report"}


def test_randomness_is_named_by_the_convention() -> None:
    """``rng`` where noise is drawn, ``seed`` where a search or simulation is made repeatable."""
    found = {(label, each.name) for label, called, _ in CALLABLES for each in parameters_of(called)}
    random = {(label, name) for label, name in found if name in ("seed", "rng", "random_state", "generator")}
    assert random == {
        ("Sanitizer.sanitize", "rng"), ("Sanitizer.stream", "rng"), ("Trials", "seed"), ("design", "seed"),
        ("frontier", "seed"), ("learn_symbols", "seed"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("docstring", "explained"),
    [
        ("rows: how many.", True), ("seed, rows: of what is simulated.", True), ("rows, seed: both.", True),
        ("Simulates ``rows`` rows.", True), ("Simulates some rows.", False), ("rows:", False),
        ("arrows: how many.", False), ("", False),
    ],
)  # fmt: skip
def test_the_reader_of_docstrings_on_planted_ones(docstring: str, explained: bool) -> None:
    assert documented("rows", f"Does something.\n\n    {docstring}\n") is explained


def test_complex_networks_refuse_unknown_names() -> None:
    with pytest.raises(TypeError, match="limits"):
        vn.Network.from_complex(
            {"array": np.eye(2)},
            1.0,
            [[1.0, 0.0]],
            {"g": [[0.0, 1.0]]},
            limits={},  # type: ignore[call-arg]
        )


def test_no_module_hides_a_public_function() -> None:
    modules = {module.name for module in pkgutil.iter_modules(vn.__path__, "veilnet.")}
    assert not modules & {f"veilnet.{name}" for name in vn.__all__}


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        vn.nonsense  # noqa: B018
