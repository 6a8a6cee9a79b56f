"""Every attack in its long form, one script after the other; each prints what was tried and what was recovered.

python benchmarks/attacks.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run all ``attacks_*.py`` beside this file; the exit code is that of the first that fails."""
    for script in sorted(Path(__file__).parent.glob("attacks_*.py")):
        print(f"\n{script.stem}", flush=True)
        code = subprocess.run([sys.executable, str(script)], check=False).returncode
        if code:
            sys.exit(code)


if __name__ == "__main__":
    main()
