"""Sums over parts of the agents, merged in any order, give the estimates of one centre."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest

import veilnet as vn
from helpers.live_networks import house_plan, house_readings
from helpers.said import says
from veilnet.adapters.partial_sums import estimate_from, partial_sum


@pytest.mark.parametrize("missing", [(), ("kitchen",), ("hall", "study")])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_merge_to_what_one_centre_estimates(missing: tuple[str, ...], parts: int) -> None:
    plan = house_plan()
    rng = np.random.default_rng(parts)
    _, readings = house_readings(plan, 1, seed=3)
    sent = {
        agent: plan.sanitizers[agent].sanitize(own[0], rng=rng)
        for agent, own in readings.items()
        if agent not in missing and plan.sanitizers[agent].sent
    }
    fusion = vn.Fusion(plan)
    names = list(sent)
    rng.shuffle(names)
    shares = [
        partial_sum(fusion, {agent: sent[agent] for agent in names[part::parts]}) for part in range(parts)
    ]
    total = reduce(add, shares, partial_sum(fusion, {}))
    assert total.agents == len(sent)
    public, covariance = estimate_from(fusion, total)
    expected = fusion.estimate(sent)
    np.testing.assert_allclose(public, expected.public, rtol=1e-10)
    np.testing.assert_allclose(covariance, expected.covariance, rtol=1e-9, atol=1e-12)


def test_what_cannot_be_added_up_is_refused() -> None:
    fusion = vn.Fusion(house_plan())
    for messages, words in (({"cellar": [1.0]}, "cellar"), ({"kitchen": [np.nan]}, "kitchen")):
        with pytest.raises(vn.InvalidRequest) as found:
            partial_sum(fusion, messages)
        says(found.value, "messages", words)
    with pytest.raises(vn.InvalidRequest) as found:
        partial_sum(vn.Fusion(house_plan(stream=True)), {})
    says(found.value, "fusion", "streams")
