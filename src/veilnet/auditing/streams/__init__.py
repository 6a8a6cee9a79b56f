"""The audit of stream plans: attackers with memory, what could happen, and other mechanisms for streams."""
