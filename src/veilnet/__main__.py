"""``python -m veilnet`` is the command ``veilnet``."""

from veilnet.cli import main

if __name__ == "__main__":
    main()
