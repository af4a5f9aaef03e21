"""`python -m braid`: the same as `braid`."""

from braid._program import main

if __name__ == "__main__":
    main()
