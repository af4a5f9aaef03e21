"""Shared code of the end-to-end tests: a real server, model repositories on disk, and clients of both protocols."""
