"""The attacks in their long form, one script after the other; each prints what was tried and what was recovered.

python benchmarks/attacks.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Kills and full disks, the readings' lattice, networks hard on floating point; stops at the first that fails."""
    here = Path(__file__).parent
    for script in (*sorted(here.glob("attacks_*.py")), here / "lattice.py", here / "nasty_networks.py"):
        print(f"\n{script.stem}", flush=True)
        code = subprocess.run([sys.executable, str(script)], check=False).returncode
        if code:
            sys.exit(code)


if __name__ == "__main__":
    main()
