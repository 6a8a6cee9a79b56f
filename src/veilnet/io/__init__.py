"""Files in and out: networks and the matrices they refer to. No mathematics here; nothing is unpickled."""
