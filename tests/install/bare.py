"""A bare Debian or Ubuntu in a folder: made once by mmdebstrap, copied for each use, entered in separate namespaces.

It contains only the named packages, and this machine's certificates and package sources. Processes started in it end
with the process that entered it. Needs root.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

CACHE = pathlib.Path(os.environ.get("BRAID_INSTALL_CACHE", pathlib.Path.home() / ".cache/braid-install"))
# Ubuntu's releases, with their own mirror and keys. Debian's package ubuntu-keyring has the keys, if installed.
UBUNTU = {"noble"}
UBUNTU_KEYS = os.environ.get("UBUNTU_KEYRING", "/usr/share/keyrings/ubuntu-archive-keyring.gpg")
# Variables for the package sources and trusted certificates of this machine. Other variables are not passed on.
KEPT = ["SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL"]


class Bare:
    """As a context manager: a fresh copy of Debian's or Ubuntu's `release` with the packages `include`."""

    def __init__(self, release: str, include: str):
        self._base = CACHE / f"{release}-{include.replace(',', '-')}"
        self._release = release
        self._include = include

    def __enter__(self):
        if not self._base.exists():
            self._make()
        # Not in a private folder of this user: the service's user must reach it.
        self._folder = tempfile.TemporaryDirectory(prefix="braid-install-", dir="/var/tmp")
        pathlib.Path(self._folder.name).chmod(0o755)
        self.root = pathlib.Path(self._folder.name) / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", self._base, self.root], check=True)
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def command(self, *words, user: str | None = None) -> list[str]:
        """Returns the command line that runs `words` in it. With `user`, it runs as in the unit, without root's rights."""
        mounts = 'mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" && exec "$@"'
        kept = [f"{name}={os.environ[name]}" for name in KEPT if name in os.environ]
        environment = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", *kept]
        environment.append("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        inside = ["chroot", str(self.root), *words]
        if user:
            rights = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
            inside = ["chroot", str(self.root), "setpriv", f"--reuid={user}", f"--regid={user}", *rights, *words]
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root}/proc"]
        return [*namespaces, "bash", "-c", mounts, str(self.root), *environment, *inside]

    def run(self, *words) -> str:
        """Returns the output of `words`; raises if it fails."""
        ran = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=1800)
        if ran.returncode != 0:
            raise SystemExit(f"{' '.join(words)}:\n{(ran.stdout + ran.stderr)[-4000:]}")
        return ran.stdout

    def shell(self, script: str) -> str:
        return self.run("bash", "-euo", "pipefail", "-c", script)

    def _make(self):
        CACHE.mkdir(parents=True, exist_ok=True)
        made = self._base.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={self._include}", self._release, made]
        if self._release in UBUNTU:
            if not pathlib.Path(UBUNTU_KEYS).exists():
                raise SystemExit(
                    f"{self._release} needs the keys of Ubuntu's archive at {UBUNTU_KEYS}, or UBUNTU_KEYRING to name them"
                )
            sources = f"deb [signed-by={UBUNTU_KEYS}] http://archive.ubuntu.com/ubuntu {self._release} main universe"
            command.append(sources)
        subprocess.run(command, check=True)
        subprocess.run(["cp", "-a", "/etc/ssl/certs/.", made / "etc/ssl/certs"], check=True)
        files = ["/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", *pathlib.Path("/etc/apt/apt.conf.d").glob("99*")]
        for file in files:
            if pathlib.Path(file).exists():
                shutil.copy(file, made / str(file).lstrip("/"))
        made.rename(self._base)
