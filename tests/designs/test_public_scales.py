"""Each public parameter may count in an error of its own: °C² and kW² need not be added up.

Oracle: a network whose public rows are divided by the scales by hand, measured as the paper does; and the units of a
column, which must decide nothing about a network that was fitted.
"""

import numpy as np
import pytest

import veilnet as vn
from veilnet.bounds.typical_errors import typical_errors

SCALES = {"warmth": 0.2, "both": 3.0}


def house(stream: bool = False, **more: object) -> vn.Network:
    rng = np.random.default_rng(4)
    observe = {f"room{k}": rng.standard_normal((2, 3)) for k in range(3)}
    public = {"warmth": [1.0, 0, 0], "both": [[0, 1.0, 0.2], [0.3, 1.0, 0]]}
    if stream:
        more["dynamics"] = vn.Dynamics(transition=np.diag([0.9, 0.7, 0.5]), noise=np.eye(3))
    else:
        more["prior"] = vn.Prior(covariance=np.diag([4.0, 1.0, 2.0]))
    return vn.Network(observe, 0.5, public, {"people": [0.2, 0, 1.0]}, resolution=0.0, **more)


def divided(network: vn.Network) -> vn.Network:
    public = {name: rows / (SCALES[name] * np.sqrt(len(rows))) for name, rows in network.public.items()}
    return network.replace(public=public, public_scales=None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_loss_is_that_of_rows_divided_by_their_scales(stream: bool) -> None:
    network = house(stream, public_scales=SCALES)
    plan = vn.design(network, utility_loss=0.1, starts=1)
    by_hand = divided(network)
    assert plan.certificate.ok
    assert vn.utility(network, plan.sanitizers) == pytest.approx(
        vn.utility(by_hand, plan.sanitizers), rel=1e-6
    )
    assert plan.utility != pytest.approx(
        vn.utility(network.replace(public_scales=None), plan.sanitizers), rel=1e-2
    )
    other = vn.design(by_hand, utility_loss=0.1, starts=1)
    assert plan.privacy["people"] == pytest.approx(other.privacy["people"], rel=1e-3)


def test_in_raw_errors_the_loss_is_the_mean_growth_of_the_parameters() -> None:
    network = house()
    raw = {name: each.raw for name, each in typical_errors(network).items() if not each.private}
    plan = vn.design(network.replace(public_scales=raw), utility_loss=0.1)
    grown = [each.variances for each in typical_errors(network, plan.sanitizers).values() if not each.private]
    assert -plan.utility == pytest.approx(np.mean(grown) - 1, rel=1e-9)


def test_units_of_public_columns_decide_nothing_of_a_fitted_network(tmp_path) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((600, 3))
    table = {name: x[:, k] for k, name in enumerate(("T", "P", "people"))}
    shown = np.array(
        [[1.0, 0, 0.5], [1, 0, -0.5], [0, 1, 0.5], [0, 1, -0.5]]
    )  # T by the kitchen, P by the hall
    table |= {f"y{k}": x @ shown[k] + rng.standard_normal(600) for k in range(4)}
    agents = {"kitchen": ["y0", "y1"], "hall": ["y2", "y3"]}
    losses = []
    for unit in (1.0, 1000.0):
        network = vn.fit(table | {"P": table["P"] * unit}, agents, ["T", "P"], ["people"], limits=False)
        network.save(tmp_path / "house.toml")
        network = vn.Network.load(tmp_path / "house.toml")
        sanitizers = {"kitchen": vn.Sanitizer(compression=[[1.0, 0.5]], noise=[[0.3]])}
        losses.append(vn.utility(network, sanitizers))
    raw = vn.utility(network.replace(public_scales=None), sanitizers)
    assert raw != pytest.approx(losses[1], rel=0.1)
    # by how much a fit of few rows is widened is drawn, and good to some thousandths
    assert losses[0] == pytest.approx(losses[1], rel=5e-3)


def test_scales_are_errors_of_public_parameters() -> None:
    with pytest.raises(vn.InvalidNetwork, match="unknown 'warmht'"):
        house(public_scales={"warmht": 1.0})
    with pytest.raises(vn.InvalidNetwork, match="above 0"):
        house(public_scales={"warmth": 0.0})
