#!/bin/sh
# The other four rooms of the bundled house, each an agent of its own; docs/how-to/home-assistant.md starts the kitchen's.
agents=
trap 'kill $agents 2> /dev/null' INT TERM
here=mqtt://localhost/zigbee2mqtt
room() { # file, folder of keys, topic, readings
    name=$1 keys=$2 topic=$3
    shift 3
    for reading in "$@"; do
        set -- "$@" --source "$here/$topic#$reading"
        shift
    done
    ./veilnet agent "plan/$name.json" --broker mqtts://localhost:8883 --cert "keys/agents/$keys" --begin "$@" &
    agents="$agents $!"
}
room "living room" living=20room living%20room temperature CO2 radiator sound
room hall hall hall temperature humidity vibration
room bedroom bedroom bedroom temperature CO2 "window pane" vibration
room study study study temperature CO2 "plug power"
wait
