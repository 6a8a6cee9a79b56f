"""A live network over an MQTT broker: agents that read, sanitize and send, a centre that estimates.

Who is who: ``topics`` (who says what where), ``keys`` and ``seals`` (who can prove it), ``broker`` (who may do what).

A message's life, in the order of the modules to read:

    epochs          a reading's time -> the epoch it belongs to
    feeding         lines of readings -> an agent: of a log, or as time goes by
    agent           the sequence number is reserved on the disk, then noise is drawn, then the message is kept there
                    (:mod:`veilnet.io.agent_store`)
    messages        what goes over the wire: typed, limited in size, sealed
    sending         the agent's outbox: a message leaves it when the centre has acknowledged it
    intake          the centre's door: who may come in, and why others may not
    centre_store    messages and estimates, each once; committed before anything is acknowledged
    estimating      an estimate for every epoch, revised by what comes late

``agent`` and ``centre`` are made of these, without a network; ``sending`` and ``receiving`` bring them to the broker.
"""
