"""How an array of messages says that an agent had no reading in a row, which is not the same as a lost message.

Not a number: nothing arrived, though the agent may have read and remembered. Infinite: the agent said that it had
nothing to read, so that its memory went on without a reading.
"""

from __future__ import annotations

MISSED = float("inf")
"""What stands in place of every number of a row whose reading was missed: no message could hold it."""
