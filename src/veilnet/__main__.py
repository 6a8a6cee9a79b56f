"""``python -m veilnet`` is the command ``veilnet``."""

import sys

if __name__ == "__main__":
    try:
        from veilnet.cli import main
    except KeyboardInterrupt:  # before there was anything to interrupt
        sys.exit(130)
    main()
