"""Puts the installed server (`cmake --install`, the folder that BRAID_INSTALLED names) into the wheel."""

import os
import pathlib

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        installed = os.environ.get("BRAID_INSTALLED", "")
        if not (pathlib.Path(installed) / "bin" / "braid").is_file():
            raise SystemExit("BRAID_INSTALLED must name a folder with bin/braid in it; `make wheel` sets it")
        build_data["force_include"][installed] = "braid/_files"
        # One wheel for every CPython: its one extension is loaded by the server's workers, on the stable ABI.
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"
