"""Campaigns: long runs against a real server while failures are injected. Each is a script in this folder;
docs/campaigns.md."""
