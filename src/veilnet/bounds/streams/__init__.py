"""What a centre can know of a stream: the messages as one linear system, and the steady state of its filter.

Read ``state_space`` (the model of the messages), ``steady`` and ``riccati`` (the steady state by doubling), then
``knowledge`` (utility now, privacy with hindsight).
"""
