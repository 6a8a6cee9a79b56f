"""An example for the help of each verb. ``tests/cli/test_help_examples.py`` runs them all, as they stand here."""

from __future__ import annotations

# In a folder with the house (veilnet init), its plan and some rows of readings.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "": ("veilnet init house.toml", "veilnet check house.toml", "veilnet design house.toml --out plan/"),
    "demo": ("veilnet demo --json",),
    "init": ("veilnet init house.toml --force",),
    "check": ("veilnet check house.toml -v",),
    "design": ("veilnet design house.toml --private-error gait=2x --out plan/",),
    "frontier": ("veilnet frontier house.toml --private-error 1.5x --private-error 2x --csv frontier.csv",),
    "inspect": ("veilnet inspect plan/kitchen.json",),
    "extract": ("veilnet design house.toml --out plan.npz", "veilnet extract plan.npz kitchen"),
    "export": ("veilnet export plan/kitchen.json --c kitchen-c/",),
    "sign": ("veilnet sign --new-key designer.key", "veilnet sign plan/ --key designer.key"),
    "sanitize": ("veilnet sanitize plan/kitchen.json --in readings.csv --out kitchen.csv",),
    "fuse": ("veilnet fuse plan/center.json kitchen=kitchen.csv hall=hall.csv --out estimates.csv",),
    "agent": (
        "veilnet live keys plan/ --out keys/ --host broker.example",
        "veilnet agent plan/kitchen.json --broker mqtts://broker.example:8883 --cert keys/agents/kitchen "
        "--begin --in readings.csv",
    ),
    "center": (
        "veilnet live keys plan/ --out keys/ --host broker.example",
        "veilnet center plan/center.json --broker mqtts://broker.example:8883 --cert keys/centre "
        "--out estimates.sqlite",
    ),
    "audit": ("veilnet audit plan/ --only promise --only deployed",),
    "verify": ("veilnet verify plan/ house.toml",),
    "report": ("veilnet report plan/ --out report.html",),
    "live": ("veilnet live keys plan/ --out keys/ --host broker.example",),
    "parts": ("veilnet parts design city/", "veilnet parts verify city/"),
    "studio": ("veilnet studio house.toml",),
    "fit": (
        "veilnet fit winter.csv --agent kitchen=T1,RH1 --agent hall=T2 --public T_out --private people "
        "--out fitted.toml",
    ),
    "refit": ("veilnet refit plan-winter/ spring.csv --out plan-spring/",),
    "reproduce": ("veilnet reproduce fig1 --draws 2 --jobs 1 --out results/",),
    "doctor": ("veilnet doctor --json",),
}


def example_text(verb: str) -> str:
    """How the help of a verb, or of the command itself (""), ends; empty where there is no example."""
    lines = EXAMPLES.get(verb, ())
    heading = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join([heading, *(f"  {line}" for line in lines)]) if lines else ""
