"""Record what tests ask a server, and play it against two builds of the server that should answer the same (README.md)."""
