"""A short storm of chaos.py, which says what it is; longer ones are run by hand."""

import chaos

# On machines that do other things at the same time; by hand it is 2.
HEALED_WITHIN = 15


def test_a_storm_loses_nothing_and_leaves_nothing(tmp_path):
    assert chaos.run(20, 7, HEALED_WITHIN, tmp_path) == []
