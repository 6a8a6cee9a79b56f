"""What a fit found out, in a file beside the network it made: JSON, for programs and for ``veilnet check``.

The file names the network it is about by a fingerprint of its model. A network that was edited afterwards, its limits
aside, is another one, and promises that were computed for the first are not shown for the second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidNetwork
from veilnet.io._atomic import write_bytes
from veilnet.io._formats import check_format
from veilnet.io._reading import read_text

FORMAT = "veilnet-fit-report/1"


def report_path(network: Path) -> Path:
    """Where the report on a network file stands: house.toml has house.report.json beside it."""
    return network.with_name(f"{network.stem}.report.json")


def save_fit_report(path: Path, fingerprint: str, report: Mapping[str, Any], warnings: Any) -> None:
    """Write a report, already made of plain numbers, text, lists and dictionaries, without its outliers and codes.

    Row and distance of an outlier, with the mean and deviation beside it, are a private value; warnings count them.
    """
    kept = {key: value for key, value in report.items() if key not in ("outliers", "repeated")}
    document = {"format": FORMAT, "network": fingerprint, "report": kept, "warnings": warnings}
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode())


def load_intervals(path: Path, fingerprint: str) -> dict[str, tuple[float, float, float]] | None:
    """private name -> (low, high, level) of the privacy that is free; None where the report is of another network."""
    try:
        document = json.loads(read_text(path))
        check_format(document.get("format"), FORMAT, InvalidNetwork)
        if document["network"] != fingerprint:
            return None
        promises: Mapping[str, Any] = document["report"]["promises"]
        known = {name: one["interval"] for name, one in promises.items() if one["interval"] is not None}
        return {name: (float(i["low"]), float(i["high"]), float(i["level"])) for name, i in known.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        found = str(error) if isinstance(error, InvalidNetwork) else "found something else"
        raise InvalidNetwork(
            f"{path}: expected a report that 'veilnet fit --out' wrote; {found}. Remove it, or fit again"
        ) from error
