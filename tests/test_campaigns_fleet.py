"""The campaign tests/campaigns/fleet for some seconds (`make nightly` runs it for minutes)."""

import pytest
from harness.campaigns import run_campaign
from harness.envoy import need_envoy


@pytest.mark.parametrize("mode", ["durable", "behind"])
def test_sequences_of_a_fleet_go_on_whatever_becomes_of_its_servers(mode):
    need_envoy()
    arguments = ("--sequences", 60, "--kill-every", 1, "--drain-every", 3, "--cut-every", 2, "--mode", mode)
    printed = run_campaign("fleet", *arguments)
    assert "| sequences that ended | 60 |" in printed
    assert "| servers killed | " in printed
