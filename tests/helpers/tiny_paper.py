"""The paper's experiments in a size that runs within seconds."""

from __future__ import annotations

from veilnet.paper import Settings

TINY = Settings(
    draws=4,
    seed=3,
    readings=12,
    parameters=4,
    private_rows=2,
    agents=(1, 2, 3, 4),
    public_rows=(1, 2),
    tradeoff_agents=(2, 3),
    tradeoff_public_rows=2,
    thresholds=(5.0, 20.0),
    tradeoff_sweeps=3,
    sweep_threshold=20.0,
    sweeps=4,
    long_sweeps=8,
    long_draws=1,
)
