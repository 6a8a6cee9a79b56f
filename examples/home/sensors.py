"""Stand-ins for the sensors of the bundled house: what Zigbee2MQTT would publish on the home's own broker.

.venv/bin/python examples/home/sensors.py --every 5
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.io.template import house


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--every", type=float, default=5.0, help="seconds")
    given = parser.parse_args()
    network, random = house(), np.random.default_rng()
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.connect(given.host, given.port)
    client.loop_start()
    x = draw_x(network, random, 1)
    truth = ", ".join(f"{name} {(rows @ x[0])[0]:.2f}" for name, rows in network.public.items())
    print(f"The truth is: {truth}. Ctrl-C ends.", flush=True)
    while True:
        seen = draw_readings(network, x, random)[0]
        for place, (room, names) in enumerate(network.reading_names.items()):
            values = dict(zip(names, seen[network.blocks.rows(place)].round(2).tolist(), strict=True))
            client.publish(f"zigbee2mqtt/{room}", json.dumps(values))
        time.sleep(given.every)


if __name__ == "__main__":
    main()
