"""`python -m replay` replays a recording; see judge.py."""

import sys

from replay.judge import main

if __name__ == "__main__":
    sys.exit(main())
