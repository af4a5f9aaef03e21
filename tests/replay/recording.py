"""The format of a recording: a folder of sessions, and of the larger contents that they share.

A session is the lifetime of one server: its options, its initial files, and its events in order of arrival. Each event
is a dictionary; `e` is its kind, `n` the number of its request:

    files    changes: {path: entry}        changes of tests below the root, before the next event
    begin    kind: http | metrics, connection, data [, partial]       an HTTP/1.1 request
             kind: grpc, method, metadata [, data]                    a call; with data it is unary
    message  seen, data                    a message of a stream, sent after `seen` answers
    close    seen                          the client has no more messages
    cancel   seen                          the client disconnected
    end      code                          answered: the HTTP status, or the gRPC code

Paths are below a root, which pytest chooses for each run. It is stored as a text of the same length, and played in
folders of the same length. So it can be replaced in any bytes, even in protobuf messages.
"""

import base64
import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import re
import stat
import zlib

MAX_FILE_BYTES = 64 << 20
MAX_SESSION_BYTES = 256 << 20
INLINE_BYTES = 400
# Folders that the server writes to: its files are not changes of a test.
WRITTEN_BY_SERVER = re.compile(r"--?(trace|log|sequence_state|cache)\w*[-_](path|file|dir\w*)(=|$)")
SKIPPED = re.compile(r"(^|/)(tmp-[0-9a-f]{8}|__pycache__)(/|$)")


class TooLarge(Exception):
    """A session is larger than a recording allows."""


def canonical(length):
    """Returns the placeholder for a root of this length."""
    return "/" + "@" * (length - 1)


class Blobs:
    """Contents by their hash, each stored once. `put` returns a key for the bytes, `get` returns the bytes."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder) / "blobs"

    def put(self, data):
        if len(data) <= INLINE_BYTES:
            return "=" + base64.b64encode(data).decode()
        name = hashlib.sha256(data).hexdigest()[:40]
        path = self._path(name)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_suffix(f".{os.getpid()}")
            new.write_bytes(zlib.compress(data, 6))
            new.replace(path)
        return name

    def get(self, text):
        if text.startswith("="):
            return base64.b64decode(text[1:])
        return zlib.decompress(self._path(text).read_bytes())

    def _path(self, name):
        return self._folder / name[:2] / name[2:]


class Tree:
    """The files below a root that concern a server, and their changes since the last look.

    It watches the folders directly below the root whose names occur in the data passed to `mention`. It also watches
    folders that the contents of their files mention.
    """

    def __init__(self, root, blobs):
        self._root = os.fsencode(root)
        self._token = canonical(len(root)).encode()
        self._pattern = re.compile(re.escape(self._root) + rb"/([\w.+-]+)")
        self._blobs = blobs
        self._tops = set()
        self._known = {}
        self._bytes = 0

    def neutral(self, data):
        """Returns the bytes with a placeholder for the root."""
        return data.replace(self._root, self._token)

    def mention(self, data):
        self._tops |= {os.fsdecode(each) for each in self._pattern.findall(data)}

    def changes(self):
        """Returns {path: entry} since the last call; None is a deleted entry."""
        found, changed = {}, {}
        looked = set()
        while self._tops - looked:
            top = (self._tops - looked).pop()
            looked.add(top)
            self._walk(top, found, changed)
        changed |= {path: None for path in self._known if path not in found}
        self._known = found
        return changed

    def _walk(self, path, found, changed):
        full = os.path.join(os.fsdecode(self._root), path)
        if SKIPPED.search(path):
            return
        try:
            status = os.lstat(full)
            if stat.S_ISDIR(status.st_mode):
                mark = entry = ["d", stat.S_IMODE(status.st_mode)]
                names = os.listdir(full)
            elif stat.S_ISLNK(status.st_mode):
                mark = entry = ["l", self.neutral(os.fsencode(os.readlink(full))).decode()]
                names = ()
            elif stat.S_ISREG(status.st_mode):
                mark = (status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode)
                entry, names = None, ()
                if self._known.get(path) != mark:
                    entry = ["f", stat.S_IMODE(status.st_mode), self._content(full, status.st_size)]
            else:
                return
        except FileNotFoundError:
            return
        found[path] = mark
        if self._known.get(path) != mark:
            changed[path] = entry
        for name in sorted(names):
            self._walk(os.path.join(path, name), found, changed)

    def _content(self, path, size):
        self._bytes += size
        if size > MAX_FILE_BYTES or self._bytes > MAX_SESSION_BYTES:
            raise TooLarge(path)
        data = pathlib.Path(path).read_bytes()
        if size < 1 << 16:
            self.mention(data)
        return self._blobs.put(self.neutral(data))


def write_changes(root, changes, blobs):
    """Applies `changes` below `root`, which must be as long as the recorded one. Files appear atomically."""
    root = str(root)
    token = canonical(len(root))
    for path in sorted(changes, reverse=True):
        if changes[path] is None:
            full = os.path.join(root, path)
            try:
                os.rmdir(full) if os.path.isdir(full) and not os.path.islink(full) else os.remove(full)
            except OSError:
                pass  # written there by the server
    for path in sorted(changes):
        if (entry := changes[path]) is None:
            continue
        full = os.path.join(root, path)
        kind, value, *content = entry
        if kind == "d":
            os.makedirs(full, exist_ok=True)
            os.chmod(full, value)
            continue
        new = full + ".new-file"
        if kind == "l":
            os.symlink(value.replace(token, root), new)
        else:
            pathlib.Path(new).write_bytes(blobs.get(content[0]).replace(token.encode(), root.encode()))
            os.chmod(new, value)
        os.replace(new, full)


@dataclasses.dataclass
class Session:
    """One server's lifetime; see the module's docstring."""

    name: str
    root_length: int
    workdir: str
    repositories: list
    options: list
    env: dict
    files: dict
    listened: bool = False
    events: list = dataclasses.field(default_factory=list)

    def save(self, folder):
        """Writes the session, unless an equal one exists, apart from times and names."""
        fields = dataclasses.asdict(self)
        same = {**fields, "name": ""}
        same["events"] = [{k: v for k, v in each.items() if k not in ("t", "test")} for each in self.events]
        mark = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:12]
        folder = pathlib.Path(folder) / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob(f"*-{mark}.json.gz")):
            path = folder / f"{file_name(self.name)[:80]}-{mark}.json.gz"
            path.write_bytes(gzip.compress(json.dumps(fields).encode(), mtime=0))

    @classmethod
    def load(cls, path):
        return cls(**json.loads(gzip.decompress(pathlib.Path(path).read_bytes())))


def file_name(test):
    """Returns the form of a test's name, or of a pattern, in a session's file name."""
    return re.sub(r"[^\w.*-]+", "_", test)


def sessions(folder):
    """Returns the paths of a recording's sessions, in a fixed order."""
    return sorted((pathlib.Path(folder) / "sessions").glob("*.json.gz"))
