"""The attacks in their long form, one script after the other; each prints what was tried and what was recovered.

    python benchmarks/attacks.py            all of it (hours)
    python benchmarks/attacks.py --quick    a few of each

The first script that fails ends it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUICK = {
    "attacks_kills": ("--kills", "14", "--full", "6"),
    "attacks_memory": ("--kills", "6", "--full", "2"),
    "attacks_noise": ("--times", "2"),
    "attacks_plans": ("--times", "20"),
    "lattice": ("--networks", "1", "--rows", "100"),
    "nasty_networks": ("--networks", "4"),
}


def main(*, quick: bool) -> None:
    """Kills, full disks, wrong noise, malicious plans, the readings' lattice, networks hard on floating point.

    It stops at the first that fails.
    """
    here = Path(__file__).parent
    for script in (*sorted(here.glob("attacks_*.py")), here / "lattice.py", here / "nasty_networks.py"):
        print(f"\n{script.stem}", flush=True)
        few = QUICK[script.stem] if quick else ()
        code = subprocess.run([sys.executable, str(script), *few], check=False).returncode
        if code:
            sys.exit(code)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
