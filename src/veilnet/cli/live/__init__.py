"""A network that runs over an MQTT broker: try it, make its keys, look at how it is doing."""

VERBS = {
    "demo": "A whole network on this machine, in a minute.",
    "keys": "Certificates and a broker configuration for a plan.",
    "budget": "How many releases leave the privacy that has to remain.",
    "status": "Agents seen, lag, losses and refusals of a running centre.",
}
