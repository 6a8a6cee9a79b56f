"""A plan is never trusted because a solver said so: its promise is recomputed from scratch.

The recheck (:mod:`veilnet.recheck`) uses (network, C, Θ) alone and shares no code with the solvers or with
:mod:`veilnet.bounds`: quickly in doubles where they can tell, and otherwise with 32 digits. What it finds is a lower
bound on the privacy, so a claim above the truth is never confirmed, however large it is. Streams are rechecked by
spectra (privacy, with hindsight) and by the error of a given filter (utility, now): no Riccati
equation of the messages is solved. Around a gap it is a bound from below, the error of somebody who knows the state
some rows before and after it. Where agents are very many, utility is that of the centre that adds up what is sent
(:mod:`veilnet.recheck.stream`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet.agent.mechanisms import Mechanisms, Sanitizers, as_rounded, mechanisms
from veilnet.model.network import Network
from veilnet.plans.asked import Asked
from veilnet.recheck.dither import as_dithered, wrongly_dithered
from veilnet.recheck.route import WITHOUT_BOUND, Recheck
from veilnet.recheck.stream import StreamRecheck
from veilnet.recheck.sums import powers_of

# What two routes through floating point may differ by, relative to the larger of promise and one.
_AGREEMENT = 1e-6
_ROUNDING = 1e-12  # of a target, times the conditioning: some thousand roundings of doubles
_WEAK_PRIOR = 1e-9  # what the recheck's weak prior takes from a growth, and more
LOSS_ALLOWED = "utility loss allowed"
ROUNDING = "public error by rounding"
DITHERED = "agents without the dither that they need and the figures count"
UTILITY = "utility"
NOISE_POWER = "noise power of "
CHANGE_OF = "change of "  # how many deviations it and none are apart
_LOST = 1e8  # a public error that grows more than this is lost, whether or not it is without bound
_LARGE = 1e6  # figures above it are differences of nearly equal numbers where rounding is amplified
_AMPLIFIES = 1e4  # a conditioning whose square leaves doubles half of their digits
_MOST_EXPLAINED = 0.01  # relative difference that rounding may explain, at most
_MOST_CORRECTIONS = 4  # a corrected figure can move what another is judged by, but not for ever
# By which part the bound around gaps may lie below the figure computed there: of 200 streams one had 1.1e-5.
_BELOW = 1e-4


@dataclass(frozen=True, kw_only=True)
class Promise(Asked):
    """What a plan claims beside what it was asked for, which it claims to meet.

    utility:   u.
    privacy:   p_j.
    with_gaps: of a stream, the least p_j around a start or a missed row; empty where they are not computed.

    ``power`` of a network in parts is that of any agent of a part, by the part's name.
    """

    utility: float
    privacy: Mapping[str, float]
    with_gaps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """One promise and what the recheck found.

    what:     which promise, in words.
    promised: the figure the plan claims, or was asked for.
    found:    the figure that stands against it.
    ok:       whether the promise is confirmed.
    """

    what: str
    promised: float
    found: float
    ok: bool


@dataclass(frozen=True)
class Certificate:
    """The promises of a plan, recomputed by another route.

    findings: one for each promise.
    """

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise was confirmed."""
        return all(finding.ok for finding in self.findings)

    def complaint(self) -> str:
        """What was not confirmed, in words."""
        return "; ".join(
            f"{finding.what}: promised {finding.promised:.6g}, found {finding.found:.6g}"
            for finding in self.findings
            if not finding.ok
        )


def certify(
    network: Network, sanitizers: Sanitizers, promise: Promise, *, begun: Recheck | None = None
) -> Certificate:
    """Recompute every promise from the network and the sanitizers alone; ``begun`` has sums formed elsewhere."""
    network = as_dithered(network, mechanisms(network, sanitizers))
    sent = mechanisms(network, sanitizers)
    model = begun or recheck_of(network, sent)
    if isinstance(model, StreamRecheck):
        rounding = _ROUNDING
        loss = model.growth_now(network.measured, -promise.utility)
    else:
        rounding = _ROUNDING * max(1.0, network.conditioning)
        loss = model.growth(network.measured, -promise.utility)
    findings = [Finding(UTILITY, promise.utility, 0.0 - loss, _agree(-promise.utility, loss))]
    for name, most in promise.seen.items():
        secret = network.secrets[name]
        seen = model.deviations(secret.rows, secret.change, secret.rows_it_lasts(network.step))
        # Found as closely as errors are; what guessing leaves is a difference of equals: a thousandth is nothing.
        held = bool(seen <= max(most * (1 + _AGREEMENT), 1e-3))
        findings.append(Finding(f"{CHANGE_OF}{name}", most, seen, held))
    for name, promised in promise.privacy.items():
        found = model.growth(network.private[name], promised)
        findings.append(Finding(_privacy_of(name), promised, found, _confirmed(promised, found)))
        target = promise.targets.get(name, 0.0)
        if target > 0:
            # Privacy is promised as computed and confirmed above; the target must hold but for the rounding of
            # this network, which decides nothing unless the target is the limit itself.
            held = bool(promised >= target - rounding * (1 + target))
            findings.append(Finding(f"target of {name}", target, promised, held))
        if name in promise.floors:
            floor = promise.floors[name]
            held = bool(promised >= floor or promised >= floor - rounding * (1 + floor))
            findings.append(Finding(f"no less than is free of {name}", floor, promised, held))
    if promise.with_gaps and isinstance(model, StreamRecheck):
        findings += _gap_findings(model, promise)
    for name, target in promise.worst.items():
        least = model.least_growth(network.private[name], target)
        # Doubles lose what privacy takes away, times the conditioning; never more than routes may differ by.
        rounding = min(_AGREEMENT, max(_WEAK_PRIOR, _ROUNDING * network.conditioning * (1 + target)))
        held = bool(least >= target - rounding * (1 + target))
        findings.append(Finding(f"every direction of {name}", target, least, held))
    if np.any(network.steps):
        wrong = float(np.sum(_dithering_otherwise(network, sent) | wrongly_dithered(network, sent)))
        findings.append(Finding(DITHERED, 0.0, wrong, wrong == 0))
    if promise.most_loss is not None:
        held = bool(0.0 - promise.utility <= promise.most_loss + _AGREEMENT * (1 + promise.most_loss))
        findings.append(Finding(LOSS_ALLOWED, promise.most_loss, 0.0 - promise.utility, held))
    if promise.rounding is not None and begun is None:
        rounded = recheck_of(network, as_rounded(network, sent)).growth(network.measured, -promise.utility)
        cost = (1 + rounded) / (1 + loss) - 1
        held = bool(cost <= promise.rounding + _AGREEMENT)
        findings.append(Finding(ROUNDING, promise.rounding, cost, held))
    if promise.power and begun is None:  # of agents elsewhere, who formed their sums knows their noise too
        limits = np.array([promise.power.get(agent, 0.0) for agent in network.agents])
        findings.append(power_finding(network.agents, limits, powers_of(sent)))
    return Certificate(tuple(findings))


def recheck_of(network: Network, sanitizers: Sanitizers) -> Recheck | StreamRecheck:
    """The recheck of what is sent, with the dither that sanitizers need."""
    network = as_dithered(network, mechanisms(network, sanitizers))
    sent = mechanisms(network, sanitizers)
    return StreamRecheck(network, sent) if network.is_stream else Recheck(network, sent)


def _gap_findings(model: StreamRecheck, promise: Promise) -> list[Finding]:
    """What is left around a gap; what is without bound in the long run is so there too, if no memory holds it."""
    finite = {name: least for name, least in promise.with_gaps.items() if np.isfinite(promise.privacy[name])}
    found = model.growths_with_gaps(finite)
    for name in promise.with_gaps.keys() - finite.keys():
        found[name] = 0.0 if model.shown_anew(model.network.private[name]) else np.inf
    return [
        Finding(f"{_privacy_of(name)} with gaps", least, found[name], _confirmed(least, found[name]))
        for name, least in promise.with_gaps.items()
    ]


def power_finding(agents: Sequence[str], allowed: Array, found: Array) -> Finding:
    """The agent whose noise comes nearest to what it may be, or exceeds it most.

    agents:  their names.
    allowed: the largest tr Θ_i of each, (S,).
    found:   tr Θ_i of each, recomputed, (S,).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(found == 0.0, 0.0, found / allowed)
    worst = int(np.argmax(np.where(np.isnan(parts), np.inf, parts)))
    held = bool(np.all(found <= allowed * (1 + _AGREEMENT)))
    return Finding(f"{NOISE_POWER}{agents[worst]}", float(allowed[worst]), float(found[worst]), held)


def _dithering_otherwise(network: Network, sent: Mechanisms) -> Booleans:
    """Which agents (S,) do not dither their readings as the figures count."""
    wrong = np.zeros(network.S, bool)
    wrong[network.blocks.owner[sent.dither_width != network.draws * network.steps]] = True
    return wrong


def confirmed_promise(
    network: Network, sanitizers: Sanitizers, promise: Promise, *, begun: Recheck | None = None
) -> tuple[Promise, Certificate]:
    """The promise, or what the recheck found where rounding explains the difference, and its certificate.

    The bounds work in doubles: in a network that amplifies rounding a thousandfold or more their figures, and
    above all "without bound", may be off. The recheck has 32 digits there; its figures are then the promise.
    Any other difference is left standing, and the certificate says so.
    """
    certificate = certify(network, sanitizers, promise, begun=begun)
    if network.is_stream:
        return _at_what_is_shown(promise, certificate)
    for _ in range(_MOST_CORRECTIONS):
        if certificate.ok:
            break
        corrected = _corrected(network, promise, certificate)
        if corrected == promise:
            break
        promise = corrected
        certificate = certify(network, sanitizers, promise, begun=begun)
    return promise, certificate


def _at_what_is_shown(promise: Promise, certificate: Certificate) -> tuple[Promise, Certificate]:
    """The promise of a stream with what was shown around gaps: a bound from below, which may lie a little lower."""
    shown = {
        name: each.found
        for name, least in promise.with_gaps.items()
        for each in certificate.findings
        if each.what == f"{_privacy_of(name)} with gaps"
        and not each.ok
        and least - _BELOW * (1 + least) <= each.found < least
    }
    findings = tuple(
        replace(each, promised=each.found, ok=True)
        if each.what in {f"{_privacy_of(name)} with gaps" for name in shown}
        else each
        for each in certificate.findings
    )
    return replace(promise, with_gaps={**promise.with_gaps, **shown}), Certificate(findings)


def explained_by_rounding(network: Network) -> float:
    """How far a figure in doubles may be off, relative, in a network that amplifies rounding as this one does."""
    return min(_MOST_EXPLAINED, 64 * float(np.finfo(float).eps) * network.conditioning**2)


def _corrected(network: Network, promise: Promise, certificate: Certificate) -> Promise:
    explained = explained_by_rounding(network)
    utility, privacy = promise.utility, dict(promise.privacy)
    for finding in certificate.findings:
        if finding.ok or np.isinf(finding.found):
            continue
        # What doubles call infinite, or nearly so, is beyond what they tell in such a network.
        large = finding.promised > _LARGE and (finding.found > _LARGE or network.conditioning > _AMPLIFIES)
        if finding.what == UTILITY and abs(utility - finding.found) <= explained * (1 - utility):
            utility = min(0.0, finding.found)
        for name in privacy:
            close = abs(privacy[name] - finding.found) <= explained * (1 + finding.found)
            if finding.what == _privacy_of(name) and (close or large):
                privacy[name] = finding.found
    return replace(promise, utility=utility, privacy=privacy)


def _privacy_of(name: str) -> str:
    return f"privacy of {name}"


def _agree(promised: float, found: float) -> bool:
    if np.isinf(promised):
        return bool(found > _LOST)
    if np.isinf(found):  # both beyond what is distinguished
        return bool(promised >= WITHOUT_BOUND)
    return bool(abs(promised - found) <= _AGREEMENT * (1 + promised))


def _confirmed(promised: float, found: float) -> bool:
    """At least the privacy that was promised; more would be a wrong promise too, but harms nobody."""
    if np.isinf(promised) or np.isinf(found):
        return bool(np.isinf(found))
    return bool(found >= promised - _AGREEMENT * (1 + promised))
