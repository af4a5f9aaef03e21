#!/usr/bin/env python3
"""Writes the example graphs to a folder, ready to be served: graphs with their handlers, models, config.json.

prepare.py FOLDER
braid serve --config_path FOLDER/config.json --port 9000 --rest_port 8000
"""

import argparse
import pathlib
import shutil

import make_models

HERE = pathlib.Path(__file__).resolve().parent


def prepare(folder):
    folder.mkdir(parents=True, exist_ok=True)
    make_models.write(folder / "models")
    for graph in sorted(HERE.glob("*/graph.pbtxt")):
        shutil.copytree(
            graph.parent, folder / graph.parent.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy2(HERE / "config.json", folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    prepare(arguments.folder)
    print(f"braid serve --config_path {arguments.folder / 'config.json'} --port 9000 --rest_port 8000")


if __name__ == "__main__":
    main()
