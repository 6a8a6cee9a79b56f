"""A live network over an MQTT broker: agents that sanitize and send, a centre that estimates.

Read in this order: ``topics`` (who says what where), ``keys`` (who is who), ``broker`` (who may do what).
"""
