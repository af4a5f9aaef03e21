"""A server that is started like OpenVINO Model Server: with a config.json."""

import json
import pathlib

from harness.server import Server


class OvmsServer(Server):
    """`braid serve --config_path` on free ports. `config` is the file, or its content, which is written to `workdir`.

    `ready=False` does not wait for readiness; `options` are further arguments. The server reads the files again at
    reload(), unless `options` set an interval.
    """

    def __init__(self, config, *options, workdir, **more):
        self.config_path = pathlib.Path(workdir) / "config.json"
        if isinstance(config, dict):
            self.write_config(config)
        else:
            self.config_path = pathlib.Path(config)
        if not any("file_system_poll_wait_seconds" in str(option) for option in options):
            options = ("--file_system_poll_wait_seconds", 0, *options)
        super().__init__([], "--config_path", self.config_path, *options, workdir=workdir, **more)

    def write_config(self, config):
        """Replaces the file atomically, like a careful operator."""
        new = self.config_path.with_suffix(".new")
        new.write_text(json.dumps(config, indent=1), encoding="utf-8")
        new.replace(self.config_path)

    def reload(self):
        """POST /v1/config/reload; returns (status, value)."""
        return self.json("POST", "/v1/config/reload")

    def states(self, name):
        """Returns {version: state} of a servable, from GET /v1/config."""
        status, config = self.json("GET", "/v1/config")
        assert status == 200, config
        found = config.get(name, {"model_version_status": []})
        return {int(each["version"]): each["state"] for each in found["model_version_status"]}
