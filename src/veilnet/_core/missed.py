"""How an array of messages says that an agent had no reading in a row, which is not the same as a lost message.

Not a number: nothing arrived, though the agent may have read and remembered. Infinite: the agent said that it had
nothing to read, so that its memory went on without a reading.
"""

from __future__ import annotations

MISSED = float("inf")
"""What stands in place of every number of a row whose reading was missed: no message could hold it."""

LONGEST_GAP = 100_000
"""Most rows of a stream that follow one another of which nobody has anything.

Programs that meet a gap go through each of its rows, and keep them: a clock that is wrong, or false, must not fill
the memory. It is a day of seconds, two months of minutes, and the same in files and live.
"""
