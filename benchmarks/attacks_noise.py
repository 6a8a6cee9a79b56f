"""Noise of the right covariance and the wrong law, many times over: how often the audit catches it, and honest noise.

    python benchmarks/attacks_noise.py [--times 20]

Every mutant sends C y plus noise with exactly the planned covariance, on the public grid. Laws, mutants and what the
audit answers are those of tests/attacks/test_wrong_noise.py, each time with other draws. It fails where honest noise
is called wrong, or where a law escapes in more than a tenth of the audits.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.wrong_noise import LAWS, failures, mutant, noisy_plan
from timing import markdown


def main(times: int) -> int:
    """The table; exit code 1 where a law escapes or honest noise does not pass."""
    plan = noisy_plan()
    honest = {"honest": lambda rng, shape: rng.standard_normal(shape)}
    rows, code = [], 0
    for number, (law, draw) in enumerate((honest | LAWS).items()):
        caught = 0
        for time in range(times):
            rng = np.random.default_rng([number, time, 2**41])
            wrong = mutant(plan.sanitizers["a0"], lambda shape, rng=rng, draw=draw: draw(rng, shape))
            caught += bool(failures(plan, "a0", wrong))
        rows.append([law, str(times), str(caught)])
        print(f"{law}: {caught} of {times}", file=sys.stderr, flush=True)
        code |= caught > 0 if law == "honest" else caught < 0.9 * times
    print(markdown(["law of the noise", "audits", "called wrong"], rows))
    return int(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20, help="audits of each law")
    sys.exit(main(parser.parse_args().times))
