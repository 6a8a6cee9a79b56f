"""The paper's figures: what is zero is not drawn as if a line led to it."""

from __future__ import annotations

import numpy as np
import pytest

from veilnet.paper.plots import _band
from veilnet.paper.tables import summarize

figure = pytest.importorskip("matplotlib.figure")


def test_zeros_stand_hollow_at_the_foot_of_a_logarithmic_axis_and_no_line_leads_there() -> None:
    axes = figure.Figure().add_subplot()
    draws = [np.full(8, value) for value in (0.0, 0.0, 2.0, 5.0)]
    _band(
        axes,
        [1, 2, 4, 8],
        [summarize(each) for each in draws],
        "C0",
        "privacy",
        "o",
        by_mean=True,
        nothing=1e-9,
    )
    axes.set_yscale("log")
    line, foot = axes.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [np.nan, np.nan, 2.0, 5.0])
    np.testing.assert_array_equal(foot.get_xdata(), [1, 2])
    assert foot.get_linestyle() == "None"
    assert foot.get_markerfacecolor() == "none"
    assert foot.get_transform() == axes.get_xaxis_transform()
