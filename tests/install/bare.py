"""A bare Debian or Ubuntu in a folder: made once by mmdebstrap, copied for each use, entered in namespaces of its own.

Nothing is in it but what is named, and this machine's certificates and package sources. What was started in it ends with the process
that entered it. Needs root.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

CACHE = pathlib.Path(os.environ.get("BRAID_INSTALL_CACHE", pathlib.Path.home() / ".cache/braid-install"))
# Ubuntu's releases, which have a mirror and keys of their own; Debian's package ubuntu-keyring has these, where there is one.
UBUNTU = {"noble"}
UBUNTU_KEYS = os.environ.get("UBUNTU_KEYRING", "/usr/share/keyrings/ubuntu-archive-keyring.gpg")
# Where the packages of this machine come from, and whom it believes. Other variables stay outside.
KEPT = ["SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL"]


class Bare:
    """With `with`: a fresh copy of Debian's or Ubuntu's `release` with the packages `include`."""

    def __init__(self, release: str, include: str):
        self._base = CACHE / f"{release}-{include.replace(',', '-')}"
        self._release = release
        self._include = include

    def __enter__(self):
        if not self._base.exists():
            self._make()
        # Not below a folder of this user's alone: the service's user must reach it.
        self._folder = tempfile.TemporaryDirectory(prefix="braid-install-", dir="/var/tmp")
        pathlib.Path(self._folder.name).chmod(0o755)
        self.root = pathlib.Path(self._folder.name) / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", self._base, self.root], check=True)
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def command(self, *words, user: str | None = None) -> list[str]:
        """The command line that runs `words` in there; with `user`, as the unit's settings have it: no rights of root's."""
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
        """What `words` prints; its failure is this program's."""
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
