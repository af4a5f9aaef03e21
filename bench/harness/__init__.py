"""The parts of `bench/run`, one per module."""
