"""Data frames in and out, pandas or polars: columns are told by their names.

pip install "veilnet[tables]"     (in the folder of its source: pip install ".[tables]")
python examples/frames.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import veilnet as vn
from veilnet.adapters.frames import fuse_frames, sanitize_frame

rng = np.random.default_rng(4)
minutes = pd.date_range("2026-01-01", periods=400, freq="min", name="time")
outside, people = rng.normal(5, 4, 400), rng.normal(2, 1, 400)
log = pd.DataFrame(
    {
        "T_out": outside,
        "people": people,
        "T1": 20 + 0.2 * outside + 0.5 * people + rng.normal(0, 0.3, 400),
        "CO2": 400 + 40 * people + rng.normal(0, 15, 400),
        "T2": 19 + 0.3 * outside + rng.normal(0, 0.3, 400),
    },
    index=minutes,
)

network = vn.fit(log, {"kitchen": ["T1", "CO2"], "hall": ["T2"]}, public=["T_out"], private=["people"])
plan = vn.design(network)
new = log.tail(5)  # of the same columns, and more of them than an agent needs
sent = {agent: sanitize_frame(plan.sanitizers[agent], new) for agent in plan.sanitizers}
sent["hall"] = sent["hall"].iloc[:4].reindex(new.index)  # the last message of the hall is lost
estimates = fuse_frames(vn.Fusion(plan), sent)
print(f"what the kitchen sends: {', '.join(sent['kitchen'].columns)}")
print(f"what the centre gives:  {', '.join(estimates.columns)}")
print(f"missing in the last row: {estimates['missing'].iloc[-1]}")
inside = (estimates["T_out"] - new["T_out"]).abs() < 4 * estimates["deviation of T_out"]
print(f"estimates within four deviations of the truth: {inside.sum()} of {len(inside)}")
