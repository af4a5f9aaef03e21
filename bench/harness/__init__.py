"""What `bench/run` is made of; each module is one part of the bench."""
