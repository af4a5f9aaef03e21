"""What all example clients share: their command line, and how an array becomes an input.

tritonclient's HTTP and gRPC modules have the same classes, so a client is written once for both.
"""

import argparse
import importlib


def parse_arguments(description):
    """Returns the client module of the chosen protocol, and the server's address."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--protocol", choices=["http", "grpc"], default="http")
    parser.add_argument("--url", help="HOST:PORT (default: localhost and the protocol's usual port)")
    arguments = parser.parse_args()
    module = importlib.import_module(f"tritonclient.{arguments.protocol}")
    url = arguments.url or {"http": "localhost:8000", "grpc": "localhost:8001"}[arguments.protocol]
    return module, url


def as_input(module, name, array, datatype):
    tensor = module.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return tensor
