"""Everything veilnet refuses, and why.

Each error is also a :class:`ValueError`, so that code which knows nothing of veilnet still catches it.
Messages name the argument or the agent, what was expected, what was found and what to do.
"""


class VeilnetError(ValueError):
    """Base of every error veilnet raises on purpose."""


class Unwritable(VeilnetError):
    """A store that could not be written, and is as it was before: its disk is full, or fails."""


class InvalidNetwork(VeilnetError):
    """A network, prior, sanitizer or file that does not describe what it claims to describe."""


class InvalidRequest(VeilnetError):
    """An argument or option that asks for what does not exist, does not fit the rest, or would have no effect."""


class NotObservable(VeilnetError):
    """A parameter that the readings (and the prior) do not determine."""


class Infeasible(VeilnetError):
    """A target that no sanitization of this network can reach."""


class InvalidReading(VeilnetError):
    """A reading an agent must not release: wrong length, not a number, out of range."""


class InvalidPlan(VeilnetError):
    """A plan whose promise is not confirmed, or whose file was truncated, changed or mixed up."""


class MissingExtra(VeilnetError, ImportError):
    """An optional part whose packages are not installed; the message is the line that installs them."""
