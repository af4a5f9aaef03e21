"""The run loop of a worker: a process that runs one Python model for the server."""
