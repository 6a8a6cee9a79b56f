"""The demo's house: what the centre knows from raw readings, from the free plan and from one that is paid for.

python benchmarks/house.py
"""

from __future__ import annotations

import veilnet as vn
from veilnet._core.words import percent
from veilnet.bounds.typical_errors import typical_errors
from veilnet.io.template import house

STRICT = 10.0  # the privacy that the demo asks of every private parameter
AUCS = (0.9, 0.8, 0.7, 0.65, 0.6)  # with which the best detector may see one person more or less


def main() -> None:
    """Both plans in words, and the figures that pages quote."""
    network = house()
    free, strict = vn.design(network), vn.design(network, privacy=STRICT)
    print(free)
    print()
    print(strict)
    errors = typical_errors(free.network, free.sanitizers)
    temperature, gait = errors["mean temperature"], errors["gait"]
    figures = {
        "rooms": network.S,
        "readings": network.N,
        "sent": sum(free.sent.values()),
        "temperature_raw": f"{temperature.raw:.2f} {temperature.unit}",
        "temperature_sent": f"{temperature.sent:.2f} {temperature.unit}",
        "temperature_guessing": f"{temperature.guessing:.2f} {temperature.unit}",
        "gait_raw": f"{gait.raw:.1f} {gait.unit}",
        "gait_sent": f"{gait.sent:.1f} {gait.unit}",
        "gait_guessing": f"{gait.guessing:.1f} {gait.unit}",
        "gait_times": f"{(1 + free.privacy['gait']) ** 0.5:.1f}x",
        "strict_times": f"{(1 + min(strict.privacy.values())) ** 0.5:.1f}x",
        "strict_more": f"{100 * ((1 - strict.utility) ** 0.5 - 1):.1f} %",
    }
    secret = vn.Secret(network.private["presence"], change=1.0)
    asked = [{"presence": vn.Auc(auc)} for auc in AUCS]
    curve = vn.frontier(network.replace(private={**network.private, "presence": secret}), asked)
    print()
    print(curve)
    figures["presence_free"] = f"{curve.ceiling:.4f}"
    for point in curve.rows:
        figures[f"presence_{100 * point.asked:.0f}"] = f"{percent(-point.utility)}"
    for key, value in figures.items():
        print(f"figure {key}: {value}")


if __name__ == "__main__":
    main()
