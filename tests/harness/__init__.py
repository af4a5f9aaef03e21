"""What the end-to-end tests share: a real server, model repositories on disk, and clients of both protocols."""
