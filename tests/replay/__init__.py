"""Records the requests of tests, and replays them against two builds of the server that should answer equally
(README.md)."""
