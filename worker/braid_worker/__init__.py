"""The worker package. A worker is a process that runs one Python model for the server."""
