"""What must hold for every network: order, units, coordinates and bookkeeping change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag, eigh

import veilnet as vn
from helpers.networks import NOISES, PRIORS, SANITIZERS, random_network, random_sanitizers
from veilnet._core.types import Array

pytestmark = pytest.mark.slow

SIZES = st.lists(st.integers(1, 4), min_size=2, max_size=5)


class Case(NamedTuple):
    """A network, its sanitizers, and a generator for whatever else a property needs."""

    network: vn.Network
    sanitizers: dict[str, vn.Sanitizer]
    rng: np.random.Generator


@st.composite
def cases(draw: st.DrawFn, priors: tuple[str, ...] = PRIORS) -> Case:
    """Any kind of noise, prior and sanitizer; without a prior J̃ may well be singular."""
    seed = draw(st.integers(0, 10**6))
    network = random_network(
        seed,
        noise=draw(st.sampled_from(NOISES)),
        prior=draw(st.sampled_from(priors)),
        sizes=[*draw(SIZES), 4],
        parameters=draw(st.integers(2, 4)),
    )
    sanitizers = random_sanitizers(network, seed, draw(st.sampled_from(SANITIZERS)))
    if draw(st.booleans()):
        sanitizers[network.agents[-1]] = vn.Sanitizer(np.ones((1, 4)), 0.5)
    return Case(network, sanitizers, np.random.default_rng(seed))


def invertible(rng: np.random.Generator, size: int) -> Array:
    """A change of coordinates that is nothing special, but well conditioned."""
    left, _ = np.linalg.qr(rng.standard_normal((size, size)))
    right, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return np.asarray((left * rng.uniform(0.5, 2.0, size)) @ right)


def figures(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> dict[str, float]:
    """Every number without a unit."""
    found = {"utility": vn.utility(network, sanitizers)}
    measures = {
        "privacy": vn.privacy(network, sanitizers),
        "worst": vn.privacy(network, sanitizers, worst=True),
        "limit": vn.privacy_limit(network),
    }
    if network.prior is not None and network.prior.full:
        measures["bits"] = vn.bits_revealed(network, sanitizers)
    return found | {f"{m} {name}": value for m, values in measures.items() for name, value in values.items()}


def same(found: Mapping[str, float], expected: Mapping[str, float], rel: float = 1e-8) -> None:
    assert found == pytest.approx(dict(expected), rel=rel, abs=1e-9)


def rebuilt(network: vn.Network, **changes: Any) -> vn.Network:
    """The same network from dense arrays, with some of them changed."""
    arguments = {
        "observe": dict(network.observe),
        "noise": network.R.matrix(),
        "public": network.U,
        "private": dict(network.private),
        "prior": network.prior,
    }
    return vn.Network(**(arguments | changes))


def bound_or_none(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> Array | None:
    try:
        return vn.crlb(network, sanitizers)
    except vn.NotObservable:
        return None


@given(cases())
def test_sanitizing_never_helps_the_centre(case: Case) -> None:
    raw = vn.crlb(case.network)
    bound = bound_or_none(case.network, case.sanitizers)
    if bound is not None:
        assert eigh(bound - raw, raw, eigvals_only=True)[0] > -1e-9
    found = figures(case.network, case.sanitizers)
    assert found["utility"] <= 1e-12
    for name in case.network.private:
        # The worst direction is at most the average one, and no plan beats silence.
        assert 0 <= found[f"worst {name}"] <= found[f"privacy {name}"] * (1 + 1e-9) + 1e-12
        assert found[f"privacy {name}"] <= found[f"limit {name}"] * (1 + 1e-9) + 1e-12


@given(cases())
def test_more_noise_never_helps_the_centre(case: Case) -> None:
    noisier = {}
    for name, sanitizer in case.sanitizers.items():
        root = case.rng.standard_normal((sanitizer.sent, 2))
        noisier[name] = sanitizer.replace(noise=sanitizer.noise + root @ root.T)
    before, after = figures(case.network, case.sanitizers), figures(case.network, noisier)
    less, more = bound_or_none(case.network, case.sanitizers), bound_or_none(case.network, noisier)
    if less is None:
        assert more is None
    elif more is not None:
        assert eigh(more - less, less, eigvals_only=True)[0] > -1e-9
    for name, value in before.items():
        slack = 1e-9 * (1 + abs(value)) if np.isfinite(value) else 0.0
        if name == "utility" or name.startswith("bits"):
            assert after[name] <= value + slack
        else:
            assert after[name] >= value - slack


@given(cases())
def test_further_compression_never_helps_the_centre(case: Case) -> None:
    fewer = {}
    for name, sanitizer in case.sanitizers.items():
        mix = case.rng.integers(-3, 4, (max(1, sanitizer.sent - 1), sanitizer.sent))
        fewer[name] = sanitizer.replace(
            compression=mix @ sanitizer.compression, noise=mix @ sanitizer.noise @ mix.T
        )
    before, after = figures(case.network, case.sanitizers), figures(case.network, fewer)
    assert after["utility"] <= before["utility"] * (1 - 1e-9) + 1e-9
    for name in case.network.private:
        assert after[f"privacy {name}"] >= before[f"privacy {name}"] * (1 - 1e-9) - 1e-9
        assert after[f"worst {name}"] >= before[f"worst {name}"] * (1 - 1e-9) - 1e-9


@given(cases())
def test_the_order_of_agents_does_not_matter(case: Case) -> None:
    network = case.network
    order = case.rng.permutation(network.S)
    rows = np.concatenate([np.arange(network.N)[network.blocks.rows(int(k))] for k in order])
    shuffled = rebuilt(
        network,
        observe={network.agents[k]: network.observe[network.agents[k]] for k in order},
        noise=network.R.matrix()[np.ix_(rows, rows)],
    )
    same(figures(shuffled, case.sanitizers), figures(network, case.sanitizers))


@given(cases())
def test_an_invertible_change_of_readings_does_not_matter(case: Case) -> None:
    """y_i -> A y_i and C_i -> C_i A^-1; a raw agent may send any invertible mix of its readings."""
    network, sanitizers = case.network, dict(case.sanitizers)
    changes = {name: invertible(case.rng, len(rows)) for name, rows in network.observe.items()}
    whole = block_diag(*changes.values())
    noise = whole @ network.R.matrix() @ whole.T
    changed = rebuilt(
        network,
        observe={name: changes[name] @ rows for name, rows in network.observe.items()},
        noise=(noise + noise.T) / 2,
    )
    undone = {
        name: sanitizer.replace(compression=sanitizer.compression @ np.linalg.inv(changes[name]))
        for name, sanitizer in sanitizers.items()
    }
    expected = figures(network, sanitizers)
    same(figures(changed, undone), expected)
    for name in set(network.agents) - set(sanitizers):
        sanitizers[name] = vn.Sanitizer(changes[name])
    same(figures(network, sanitizers), expected)


@given(cases())
def test_coordinates_of_x_do_not_matter(case: Case) -> None:
    """x -> B x, by a rotation and by any invertible B, with U, G and the prior along."""
    network = case.network
    turn, _ = np.linalg.qr(case.rng.standard_normal((network.L, network.L)))
    for change in (turn, invertible(case.rng, network.L)):
        back = np.linalg.inv(change)
        prior = network.prior
        if prior is not None and prior.given == "covariance":
            covariance = change @ prior.covariance @ change.T
            prior = vn.Prior(covariance=(covariance + covariance.T) / 2)
        elif prior is not None:
            information = back.T @ prior.information @ back
            prior = vn.Prior(information=(information + information.T) / 2)
        changed = rebuilt(
            network,
            observe={name: rows @ back for name, rows in network.observe.items()},
            public=network.U @ back,
            private={name: rows @ back for name, rows in network.private.items()},
            prior=prior,
        )
        same(figures(changed, case.sanitizers), figures(network, case.sanitizers))
        bound = bound_or_none(network, case.sanitizers)
        if bound is not None:
            found = vn.crlb(changed, case.sanitizers)
            assert np.max(np.abs(found - change @ bound @ change.T)) < 1e-8 * np.max(np.abs(found))


@given(cases())
def test_the_normal_form_changes_nothing(case: Case) -> None:
    normal = {name: sanitizer.normalized() for name, sanitizer in case.sanitizers.items()}
    expected = figures(case.network, case.sanitizers)
    same(figures(case.network, normal), expected, rel=1e-9)
    for sanitizer in normal.values():
        assert sanitizer.is_normal
        assert sanitizer.sent <= sanitizer.readings
        again = sanitizer.normalized()
        assert again.sent == sanitizer.sent
        assert np.array_equal(np.diag(again.noise), np.diag(sanitizer.noise))


EXPONENTS = st.sampled_from([-9, -3, 0, 4, 9])


@given(cases(), st.data())
def test_units_do_not_matter(case: Case, data: st.DataObject) -> None:
    """Each reading and each parameter in a unit of its own, from 1e-9 to 1e9."""
    network = case.network
    reading = 10.0 ** np.array([data.draw(EXPONENTS) for _ in range(network.N)], dtype=float)
    parameter = 10.0 ** np.array([data.draw(EXPONENTS) for _ in range(network.L)], dtype=float)
    prior = network.prior
    if prior is not None and prior.given == "covariance":
        prior = vn.Prior(covariance=prior.covariance * np.outer(parameter, parameter))
    elif prior is not None:
        prior = vn.Prior(information=prior.information / np.outer(parameter, parameter))
    own = {name: reading[network.blocks.rows(k)] for k, name in enumerate(network.agents)}
    changed = rebuilt(
        network,
        observe={name: own[name][:, None] * rows / parameter for name, rows in network.observe.items()},
        noise=network.R.matrix() * np.outer(reading, reading),
        public=network.U / parameter,
        private={name: rows / parameter for name, rows in network.private.items()},
        prior=prior,
    )
    expected = figures(network, case.sanitizers)
    same(
        figures(
            changed, {n: s.replace(compression=s.compression / own[n]) for n, s in case.sanitizers.items()}
        ),
        expected,
        rel=1e-6,
    )
    # The numbers sent in other units: rows of C and Θ scaled.
    scaled = {}
    for name, s in case.sanitizers.items():
        unit = 10.0 ** np.array([data.draw(EXPONENTS) for _ in range(s.sent)], dtype=float)
        scaled[name] = s.replace(
            compression=unit[:, None] * s.compression, noise=s.noise * np.outer(unit, unit)
        )
    same(figures(network, scaled), expected, rel=1e-6)


@given(cases())
def test_splitting_an_agent_loses_nothing(case: Case) -> None:
    """Two agents who sanitize apart tell what one agent with both their readings and sanitizers tells."""
    network = case.network
    first, second = network.agents[:2]
    if first not in case.sanitizers or second not in case.sanitizers:
        return
    joined = rebuilt(
        network,
        observe={"both": np.concatenate([network.observe[first], network.observe[second]])}
        | {name: network.observe[name] for name in network.agents[2:]},
    )
    one, two = case.sanitizers[first], case.sanitizers[second]
    together = vn.Sanitizer(
        np.asarray(block_diag(one.compression, two.compression)), np.asarray(block_diag(one.noise, two.noise))
    )
    rest = {name: s for name, s in case.sanitizers.items() if name not in (first, second)}
    same(figures(joined, rest | {"both": together}), figures(network, case.sanitizers))


@given(cases())
def test_sending_a_number_twice_tells_nothing_new(case: Case) -> None:
    """A copy with the same noise draw: C and Θ gain dependent rows."""
    doubled = {}
    for name, s in case.sanitizers.items():
        twice = np.concatenate([np.eye(s.sent), case.rng.standard_normal((1, s.sent))])
        doubled[name] = s.replace(compression=twice @ s.compression, noise=twice @ s.noise @ twice.T)
    same(figures(case.network, doubled), figures(case.network, case.sanitizers))
