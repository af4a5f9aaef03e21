"""Campaigns: long runs against a real server while things go wrong, each a script of this folder; docs/campaigns.md."""
