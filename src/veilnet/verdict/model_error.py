"""What an uncertain model means for a network's figures, in words."""

from __future__ import annotations

from veilnet.model.network import Network


def model_error_notes(network: Network) -> list[str]:
    """One line where the network counts an error of its model as noise, else none."""
    if not network.model_error:
        return []
    return [
        f"The model may be off by {100 * network.model_error:g} %: figures are for a centre that does not know how, "
        "on average over such errors. Whoever knows the true model may learn more; the audit shows how much."
    ]
