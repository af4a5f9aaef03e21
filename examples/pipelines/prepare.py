#!/usr/bin/env python3
"""Writes the example pipelines to a folder, ready to be served: models, custom node libraries, config.json.

prepare.py FOLDER [--nodes FOLDER]
braid serve --config_path FOLDER/config.json --port 9000 --rest_port 8000
"""

import argparse
import pathlib
import shutil

import make_models

HERE = pathlib.Path(__file__).resolve().parent


def prepare(folder, nodes):
    folder.mkdir(parents=True, exist_ok=True)
    make_models.write(folder / "models")
    (folder / "nodes").mkdir(exist_ok=True)
    for library in sorted(nodes.glob("*.so")):
        shutil.copy2(library, folder / "nodes")
    shutil.copy2(HERE / "config.json", folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "--nodes",
        type=pathlib.Path,
        default=HERE.parent / "custom_nodes" / "lib",
        help="where the libraries are (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if not list(arguments.nodes.glob("*.so")):
        parser.error(f"there are no libraries in {arguments.nodes}; build them: make -C {HERE.parent / 'custom_nodes'}")
    prepare(arguments.folder, arguments.nodes)
    print(f"braid serve --config_path {arguments.folder / 'config.json'} --port 9000 --rest_port 8000")


if __name__ == "__main__":
    main()
