"""Workers are confined: forbidden attempts of a model fail at each level, and other models work as before."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading

import harness
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness.graphs import config as graphs_config
from harness.graphs import single, tensor
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.server import BINARY, Server, alive, children, descriptors
from harness.waiting import wait_until

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def landlock():
    """Returns the version of the kernel's Landlock; 0: none."""
    create_ruleset, version = 444, 1
    return max(0, ctypes.CDLL(None, use_errno=True).syscall(create_ruleset, 0, 0, version))


KEEPS_FILES = pytest.mark.skipif(landlock() < 1, reason="needs Landlock (Linux 5.13)")
KEEPS_SIGNALS = pytest.mark.skipif(landlock() < 6, reason="needs Landlock of version 6 (Linux 6.12)")
# The errors of a worker at level strict or separate for unreachable files, and for writes to readable ones.
OUT_OF_REACH = "ENOENT" if os.geteuid() == 0 else "EACCES"
READ_ONLY = ("EACCES", "EROFS")

# Makes the requested attempts, on the given process. Returns the results or errors.
HOSTILE = per_request(
    """
    import ctypes, errno, fcntl, glob, multiprocessing, resource, shutil, signal, socket, stat, struct, subprocess, tempfile
    import termios

    asked = json.loads(get(request, "IN")[0])
    pid = asked.get("pid", 0)
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name, *arguments):
        result = getattr(libc, name)(*arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def syscall(*arguments):
        return call("syscall", *arguments)

    def read(path, size=1 << 20):
        with open(path, "rb") as file:
            return file.read(size)

    def memory():
        with open(f"/proc/{pid}/maps") as maps:
            begin = int(next(line for line in maps if "[heap]" in line).split("-")[0], 16)
        with open(f"/proc/{pid}/mem", "rb") as file:
            file.seek(begin)
            return len(file.read(4096))

    def descriptors():
        for number in os.listdir(f"/proc/{pid}/fd"):
            os.readlink(f"/proc/{pid}/fd/{number}")
            os.close(os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY))
        return "all"

    def own_descriptors():
        found = {}
        for number in os.listdir("/proc/self/fd"):
            try:
                found[number] = os.readlink(f"/proc/self/fd/{number}")
            except FileNotFoundError:
                pass  # that of the listing
        return found

    def mark():
        try:
            resource.setrlimit(10, (7, 7))
        except ValueError:
            raise OSError(errno.EPERM, "as the resource module tells it") from None

    def private():
        with tempfile.TemporaryFile("w") as file:
            return file.write("mine")

    def copied_memory():
        buffer = ctypes.create_string_buffer(8)
        vector = struct.pack("QQ", ctypes.addressof(buffer), 8)
        return call("process_vm_readv", pid, vector, 1, struct.pack("QQ", 0x1000, 8), 1, 0)

    def connect(address, family=socket.AF_UNIX):
        with socket.socket(family) as one:
            one.settimeout(5)
            one.connect(address)
            return one.recv(5).decode()

    path = asked.get("path", "")

    def held():  # as a descriptor that no right is needed for
        return os.open(path, os.O_PATH)

    def type_in():
        terminal = os.open(asked["tty"], os.O_RDWR | os.O_NOCTTY)
        for letter in b"typed":
            fcntl.ioctl(terminal, termios.TIOCSTI, bytes([letter]))

    def select():
        TIOCLINUX = 0x541C
        return fcntl.ioctl(os.open(asked["tty"], os.O_RDWR | os.O_NOCTTY), TIOCLINUX, bytes([7, 0]))

    def flags():
        FS_IOC_SETFLAGS, no_dump = 0x40086602, 0x40
        return fcntl.ioctl(os.open(path, os.O_RDONLY), FS_IOC_SETFLAGS, struct.pack("L", no_dump))

    def attributes():
        file_setattr, here, no_dump = 469, -100, 0x80
        return syscall(file_setattr, here, path.encode(), struct.pack("QIIII", no_dump, 0, 0, 0, 0), 24, 0)

    def handle():
        name_to_handle_at, here = 303, -100
        buffer = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
        return syscall(name_to_handle_at, here, path.encode(), buffer, ctypes.byref(ctypes.c_int()), 0)

    def opened_newly():
        openat2, here = 437, -100
        return syscall(openat2, here, b"made", struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)

    def copied():
        with open("one", "w") as file:
            file.write("text")
        shutil.copy2("one", "two")
        os.chmod("two", 0o640)
        return oct(os.stat("two").st_mode)

    # Reading and writing for all.
    acl = struct.pack("I" + "HHI" * 3, 2, 1, 6, 2**32 - 1, 4, 6, 2**32 - 1, 32, 6, 2**32 - 1)

    def forks():
        resource.setrlimit(resource.RLIMIT_NPROC, (20, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
        children = []
        try:
            for _ in range(60):
                child = os.fork()
                if child == 0:
                    signal.pause()
                children.append(child)
            return len(children)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    attempts = {
        "memory": memory,
        "copied_memory": copied_memory,
        "environment": lambda: len(read(f"/proc/{pid}/environ")),
        "descriptors": descriptors,
        "attach": lambda: call("ptrace", 0x4206, pid, 0, 0),
        "signal": lambda: os.kill(pid, signal.SIGCONT),
        "limits": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64)),
        "steal": lambda: syscall(438, os.pidfd_open(pid), 1, 0),
        "command_line": lambda: read(f"/proc/{pid}/cmdline").decode().split(chr(0)),
        "mark": mark,
        "mount": lambda: call("mount", b"none", b"/mnt", b"tmpfs", 0, None),
        "keys": lambda: syscall(250, 0, -3, 0),
        "namespace": lambda: call("unshare", 0x40000000),
        "abstract": lambda: connect(chr(0) + asked["name"]),
        "tcp": lambda: connect(("127.0.0.1", asked["port"]), socket.AF_INET),
        "read": lambda: read(asked["path"]).decode(),
        "write": lambda: open(asked["path"], "wb", 0).write(asked.get("text", "x").encode()),
        "list": lambda: sorted(os.listdir(asked["path"])),
        "variables": lambda: dict(os.environ),
        "user": lambda: [os.getuid(), os.getgid(), os.getgroups()],
        "processes": lambda: sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "own_pid": os.getpid,
        "own_descriptors": own_descriptors,
        "capabilities": lambda: [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")][0],
        "status": lambda: {k: v.split()[0] for k, v in (l.split(":", 1) for l in open("/proc/self/status")) if v.split()},
        "private": private,
        "shm": lambda: sorted(os.listdir("/dev/shm")),
        "forks": forks,
        "folder": os.getcwd,
        "stat": lambda: os.stat(path).st_size,
        "chmod": lambda: os.chmod(path, 0o666),
        "set_id": lambda: os.chmod(path, 0o4755),
        "chmod_held": lambda: os.chmod(f"/proc/self/fd/{held()}", 0o666),
        "fchmod": lambda: os.chmod(os.open(path, os.O_RDONLY), 0o666),
        "fchmodat2": lambda: syscall(452, held(), b"", 0o666, 0x1000),
        "chown": lambda: os.chown(path, -1, os.getgid()),
        "utime": lambda: os.utime(path, (1, 1)),
        "xattr": lambda: os.setxattr(path, "user.braid", b"1"),
        "xattr_held": lambda: os.setxattr(f"/proc/self/fd/{held()}", "user.braid", b"1"),
        "acl": lambda: os.setxattr(path, "system.posix_acl_access", acl),
        "flags": flags,
        "attributes": attributes,
        "handle": handle,
        "link": lambda: os.link(path, "linked"),
        "through_root": lambda: os.stat("/proc/self/root" + path).st_size,
        "through_first": lambda: os.stat("/proc/1/root" + path).st_size,
        "through_server": lambda: os.stat(f"/proc/{pid}/root" + path).st_size,
        "uring": lambda: syscall(425, 4, bytes(120)),
        "node": lambda: os.mknod("node", stat.S_IFBLK | 0o666, os.makedev(8, 0)),
        "set_id_made": lambda: os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755),
        "set_id_node": lambda: os.mknod("node", stat.S_IFREG | 0o4755),
        "opened_newly": opened_newly,
        "copied": copied,
        "connect": lambda: connect(path),
        "connect_held": lambda: connect(f"/proc/self/fd/{held()}"),
        "type": type_in,
        "select": select,
        "terminal": lambda: os.open("/dev/tty", os.O_RDWR),
        "session": lambda: os.getsid(0) == os.getpid() == os.getpgid(0),
        "die": lambda: os._exit(3),
    }
    answer = {}
    for name in asked["try"]:
        try:
            answer[name] = attempts[name]()
        except OSError as error:
            answer[name] = errno.errorcode[error.errno]
        except StopIteration:
            answer[name] = "nothing"
    return respond(OUT=np.array([json.dumps(answer).encode()], dtype=object))
    """
)


def ask(server, model, text):
    """Returns a model's answer to a text, as JSON; None if the request fails."""
    request = {"inputs": [{"name": "IN", "shape": [1], "datatype": "BYTES", "data": [text]}]}
    status, answer = server.json("POST", f"/v2/models/{model}/infer", request)
    return json.loads(answer["outputs"][0]["data"][0]) if status == 200 else None


def attempt(server, model, *names, **facts):
    """Returns the results of the hostile model's attempts."""
    return ask(server, model, json.dumps({"try": names, **facts}))


def worker_of(server, model):
    return attempt(server, model, "own_pid")["own_pid"]


@pytest.fixture
def hostile(repository, serve):
    """Starts a server with hostile models of these names."""

    def start(*options, models=("hostile", "other"), **arguments):
        for name in models:
            repository.add(name, HOSTILE, config(name, TEXT, OUT))
        return serve(repository, *options, env={"SERVER_SECRET": "of the environment"}, **arguments)

    return start


REACHING = ("memory", "copied_memory", "environment", "descriptors", "attach", "limits", "steal")


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_basic_keeps_the_server_out_of_reach(hostile, start):
    server = hostile("--worker-start", start)
    got = attempt(server, "hostile", *REACHING, "mark", "mount", "keys", pid=server.process.pid)
    assert got == {
        "memory": "EACCES",
        "copied_memory": "EPERM",
        "environment": "EACCES",
        "descriptors": "EACCES",
        "attach": "EPERM",
        "limits": "EPERM",
        "steal": "EPERM",
        "mark": "EPERM",
        "mount": "EPERM",
        "keys": "EPERM",
    }


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_basic_keeps_workers_from_each_other(hostile, start):
    server = hostile("--worker-start", start)
    other = worker_of(server, "other")
    got = attempt(server, "hostile", *REACHING, pid=other)
    assert set(got.values()) <= {"EACCES", "EPERM"}, got
    assert alive(other)


@KEEPS_SIGNALS
def test_basic_keeps_signals_in(hostile):
    server = hostile()
    assert attempt(server, "hostile", "signal", pid=server.process.pid) == {"signal": "EPERM"}
    assert attempt(server, "hostile", "signal", pid=worker_of(server, "other")) == {"signal": "EPERM"}
    assert attempt(server, "hostile", "signal", pid=worker_of(server, "hostile")) == {"signal": None}


@KEEPS_SIGNALS
def test_basic_keeps_from_abstract_sockets(hostile):
    server = hostile("--worker-isolation", "basic", "--worker-isolation", "other=none")
    name = f"braid-test-{server.mark}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        listener.settimeout(20)
        assert attempt(server, "hostile", "abstract", name=name) == {"abstract": "EPERM"}
        answering = threading.Thread(target=lambda: listener.accept()[0].sendall(b"hello"))
        answering.start()
        assert attempt(server, "other", "abstract", name=name) == {"abstract": "hello"}
        answering.join()


def test_basic_refuses_nothing_that_models_do(hostile, tmp_path):
    """Level basic forbids nothing that models normally do: files, variables and network are unchanged."""
    server = hostile()
    (tmp_path / "file").write_text("text")
    got = attempt(server, "hostile", "read", "private", "variables", "folder", path=str(tmp_path / "file"))
    assert got["read"] == "text"
    assert got["private"] == 4
    assert got["variables"]["SERVER_SECRET"] == "of the environment"
    assert got["folder"] == str(server.workdir)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        answering = threading.Thread(target=lambda: listener.accept()[0].sendall(b"hello"))
        answering.start()
        assert attempt(server, "hostile", "tcp", port=listener.getsockname()[1]) == {"tcp": "hello"}
        answering.join()


@ROOT_ONLY
def test_a_server_that_is_not_root_is_out_of_reach_too(repository):
    """A server without root's rights is also protected from its workers, and still measures their memory."""
    for name in ("hostile", "other"):
        repository.add(name, HOSTILE, config(name, TEXT, OUT))
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(repository.path, f"{folder}/models")
        with Server([f"{folder}/models"], workdir=folder, user=nobody) as server:
            for pid in (server.process.pid, worker_of(server, "other")):
                got = attempt(server, "hostile", *REACHING, pid=pid)
                assert set(map(str, got.values())) <= {"EACCES", "EPERM"}, got
                for setting in ("oom_score_adj", "coredump_filter", "autogroup", "timerslack_ns"):
                    got = attempt(server, "hostile", "write", path=f"/proc/{pid}/{setting}", text="1")
                    assert got["write"] in ("EACCES", "EPERM", "ENOENT"), setting
            assert attempt(server, "hostile", "user") == {"user": [nobody, nobody, []]}

            def memory():
                values = server.metric_values()
                return {name: value for name, value in values.items() if name.startswith("braid_worker_pss_bytes{")}

            found = wait_until(lambda: len(memory()) == 2 and memory(), 20, "the memory of both workers")
            assert all(value > 1 << 20 for value in found.values()), found


def test_none_is_as_it_says(hostile):
    """Without isolation the attempts succeed, so they are real."""
    if os.geteuid() != 0:
        pytest.skip("needs root: whether users may trace each other's processes depends on the system")
    server = hostile("--worker-isolation", "none")
    got = attempt(server, "hostile", "memory", "environment", "signal", pid=server.process.pid)
    assert got["memory"] == 4096
    assert got["environment"] > 0
    assert got["signal"] is None


def test_secrets_do_not_stay_on_the_command_line(hostile):
    server = hostile(
        "--http-restricted-api=health:x-key=one-hidden", "--grpc-restricted-protocol", "health:x-key=another-hidden",
        ready=False,
    )  # fmt: skip
    line = attempt(server, "hostile", "command_line", pid=server.process.pid)["command_line"]
    assert "--http-restricted-api=health:x-key=**********" in line
    assert "health:x-key=**************" in line
    assert "hidden" not in " ".join(line)
    assert server.request("GET", "/v2/health/ready")[0] == 403
    assert server.request("GET", "/v2/health/ready", headers={"x-key": "one-hidden"})[0] == 200


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_a_worker_has_no_descriptors_of_the_server(hostile, start):
    server = hostile("--worker-start", start)
    own = attempt(server, "hostile", "own_descriptors")["own_descriptors"]
    of_server = set(descriptors(server.process.pid).values())
    listening = {link for link in own.values() if link.startswith("socket:")} & of_server
    assert not listening, "a socket of the server's own"
    assert len([link for link in own.values() if link.startswith("socket:")]) == 1, own
    assert all(
        link.startswith(("/dev/null", "pipe:", "socket:", "/memfd:", "anon_inode:", "/proc/")) for link in own.values()
    ), own


@ROOT_ONLY
def test_basic_takes_capabilities_from_root(hostile):
    server = hostile()
    admin, trace = 1 << 21, 1 << 19
    assert int(attempt(server, "hostile", "capabilities")["capabilities"], 16) & (admin | trace) == 0


# ---- strict ----


@KEEPS_FILES
def test_strict_has_a_short_list_of_everything(hostile, repository, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("of a file")
    server = hostile("--worker-isolation", "strict", "--worker-env", "BRAID_TEST_MARK")
    got = attempt(server, "hostile", "read", "variables", "private", "folder", "namespace", path=str(secret))
    assert got["read"] == OUT_OF_REACH
    assert "SERVER_SECRET" not in got["variables"]
    assert got["variables"]["BRAID_TEST_MARK"] == server.mark
    assert got["variables"]["TMPDIR"] == got["variables"]["HOME"] == got["folder"]
    assert os.path.dirname(got["folder"]) == str(server.tempdir)
    assert got["private"] == 4
    assert got["namespace"] == "EPERM"
    folder = repository.path / "hostile"
    assert "config.pbtxt" in attempt(server, "hostile", "list", path=str(folder))["list"]
    assert attempt(server, "hostile", "list", path=str(repository.path / "other")) == {"list": OUT_OF_REACH}
    assert attempt(server, "hostile", "write", path=str(folder / "new"))["write"] in READ_ONLY
    assert attempt(server, "hostile", "write", path=str(tmp_path / "new"))["write"] in READ_ONLY
    assert attempt(server, "hostile", "read", path="/etc/shadow") == {"read": OUT_OF_REACH}
    assert attempt(server, "hostile", "tcp", port=int(server.http.rpartition(":")[2])) == {"tcp": "EACCES"}
    assert attempt(server, "hostile", *REACHING, pid=server.process.pid).keys() == set(REACHING)


@KEEPS_FILES
def test_strict_adds_what_the_operator_names(hostile, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("text")
    (tmp_path / "scratch").mkdir()
    server = hostile(
        "--worker-isolation", "hostile=strict", "--worker-path", tmp_path / "data", "--worker-path",
        f"{tmp_path}/scratch=write", "--worker-env", "BRAID_TEST_MARK",
    )  # fmt: skip
    assert attempt(server, "hostile", "read", path=f"{tmp_path}/data/file") == {"read": "text"}
    assert attempt(server, "hostile", "write", path=f"{tmp_path}/data/file")["write"] in READ_ONLY
    assert attempt(server, "hostile", "write", path=f"{tmp_path}/scratch/file") == {"write": 1}
    # The other model has the server's level.
    assert attempt(server, "other", "write", path=f"{tmp_path}/data/file") == {"write": 1}


@KEEPS_FILES
def test_a_private_folder_goes_with_its_worker(hostile):
    server = hostile("--worker-isolation", "strict", "--worker-env", "BRAID_TEST_MARK", models=["hostile"])
    first = attempt(server, "hostile", "folder", "private")["folder"]
    assert os.path.isdir(first)
    assert attempt(server, "hostile", "die") is None
    server.wait_ready()
    second = attempt(server, "hostile", "folder")["folder"]
    assert second != first
    assert not os.path.exists(first)
    server.stop()
    assert not os.path.exists(second)


@ROOT_ONLY
@KEEPS_FILES
def test_strict_has_shared_memory_of_its_own(hostile):
    name = f"/dev/shm/braid-test-{os.getpid()}"
    with open(name, "w") as file:
        file.write("of a client")
    try:
        server = hostile("--worker-isolation", "strict", "--worker-env", "BRAID_TEST_MARK", models=["hostile"])
        assert attempt(server, "hostile", "shm", "read", path=name) == {"shm": [], "read": "ENOENT"}
    finally:
        os.unlink(name)


def test_a_model_can_ask_for_more_and_not_for_less(repository, serve):
    def parameter(level):
        return f'parameters {{ key: "WORKER_ISOLATION" value {{ string_value: "{level}" }} }}'

    for name, level in (("more", "strict"), ("less", "none"), ("wrong", "severe")):
        repository.add(name, HOSTILE, config(name, TEXT, OUT, extra=parameter(level)))
    server = serve(repository, "--exit-on-error=false", "--worker-env", "BRAID_TEST_MARK", ready=False)
    index = {model["name"]: model for model in server.json("POST", "/v2/repository/index", {})[1]}
    assert index["more"]["state"] == "READY"
    assert attempt(server, "more", "read", path="/etc/shadow") == {"read": OUT_OF_REACH}
    assert (
        "'none' is less than the server's 'basic'; only --worker-isolation=less=none can lower it"
        in index["less"]["reason"]
    )
    assert "unknown isolation level 'severe'; expected none, basic, strict or separate" in index["wrong"]["reason"]


FACTS = (
    "chmod", "set_id", "chmod_held", "fchmod", "fchmodat2", "chown", "utime", "xattr", "xattr_held", "acl", "flags", "attributes",
)  # fmt: skip
LOOKS = ("stat", "handle", "link", "through_root", "through_first", "through_server")


def facts_of(path):
    info = os.stat(path)
    return info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, info.st_ctime_ns, os.listxattr(path)


@pytest.fixture
def secret(tmp_path):
    """A file in a folder that only its owner can enter."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    (folder / "key").write_text("of the operator")
    (folder / "key").chmod(0o600)
    return folder / "key"


@ROOT_ONLY
@KEEPS_FILES
@pytest.mark.parametrize("level", ["strict", "separate"])
def test_what_a_worker_does_not_reach_has_no_name_there(hostile, secret, level):
    server = hostile("--worker-isolation", level, "--worker-env", "BRAID_TEST_MARK", models=["hostile"])
    before = facts_of(secret)
    got = attempt(server, "hostile", *FACTS, *LOOKS, path=str(secret), pid=server.process.pid)
    assert set(got.values()) <= {"ENOENT", "EACCES", "EPERM"}, got
    assert facts_of(secret) == before
    assert attempt(server, "hostile", "list", path="/") == {"list": "EACCES"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(secret.parent / "socket"))
        listener.listen()
        got = attempt(server, "hostile", "connect", "connect_held", path=str(secret.parent / "socket"))
        assert got == {"connect": "ENOENT", "connect_held": "ENOENT"}


@ROOT_ONLY
@KEEPS_FILES
@pytest.mark.parametrize("level", ["strict", "separate"])
def test_what_a_worker_reads_keeps_its_facts(hostile, repository, level):
    server = hostile("--worker-isolation", level, "--worker-env", "BRAID_TEST_MARK", models=["hostile"])
    for path in (repository.path / "hostile/config.pbtxt", "/dev/null", "/proc/version"):
        before = facts_of(path)
        got = attempt(server, "hostile", *FACTS, path=str(path))
        assert set(got.values()) <= {"EROFS", "EPERM", "EACCES", "ENOTTY", "EOPNOTSUPP"}, (path, got)
        assert facts_of(path) == before
    # In its own folder a model can do what libraries need, but cannot make a set-user-id program.
    got = attempt(
        server, "hostile", "copied", "set_id", "set_id_made", "set_id_node", "opened_newly", "node", "uring", path="two"
    )
    assert got == {
        "copied": "0o100640",
        "set_id": "EPERM",
        "set_id_made": "EPERM",
        "set_id_node": "EPERM",
        "opened_newly": "ENOSYS",
        "node": "EPERM",
        "uring": "ENOSYS",
    }


@contextlib.contextmanager
def strict_of(repository, user, through=()):
    """A server of a user, and a file of that user."""
    repository.add("hostile", HOSTILE, config("hostile", TEXT, OUT))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(repository.path, f"{folder}/models")
        key = pathlib.Path(f"{folder}/key")
        key.write_text("of the operator")
        for path in (folder, *pathlib.Path(folder).rglob("*")):
            os.chown(path, user, user)
        options = ("--worker-isolation", "strict", "--worker-env", "BRAID_TEST_MARK")
        with Server([f"{folder}/models"], *options, workdir=folder, user=user, through=through) as server:
            yield server, key


@ROOT_ONLY
@KEEPS_FILES
def test_strict_of_a_server_that_is_not_root_has_files_of_its_own(repository):
    """A server without root's rights gives its strict workers their own files, by a user namespace."""
    namespace_of_users()
    with strict_of(repository, 65534) as (server, key):
        before = facts_of(key)
        got = attempt(server, "hostile", *FACTS, *LOOKS, path=str(key), pid=server.process.pid)
        assert set(got.values()) <= {"ENOENT", "EACCES", "EPERM"}, got
        own = key.parent / "models/hostile/config.pbtxt"
        got = attempt(server, "hostile", *FACTS, path=str(own))
        assert set(got.values()) <= {"EROFS", "EPERM", "EACCES"}, got
        assert facts_of(key) == before
        got = attempt(server, "hostile", "copied", "set_id_made", "user", "capabilities", "shm", "mount", "namespace")
        assert got == {
            "copied": "0o100640",
            "set_id_made": "EPERM",
            "user": [65534, 65534, []],
            "capabilities": "0" * 16,
            "shm": [],
            "mount": "EPERM",
            "namespace": "EPERM",
        }
        assert attempt(server, "hostile", *REACHING, pid=server.process.pid).keys() == set(REACHING)


@ROOT_ONLY
@KEEPS_FILES
def test_strict_without_mounts_changes_no_facts(repository):
    """Without the right to mount, calls that change facts of files are refused for all files."""
    through = ["setpriv", "--bounding-set=-sys_admin"]
    with strict_of(repository, 0, through) as (server, key):
        for path in (key, key.parent / "models/hostile/config.pbtxt"):
            before = facts_of(path)
            got = attempt(server, "hostile", *FACTS, path=str(path))
            assert set(got.values()) <= {"EPERM", "EACCES"}, got
            assert facts_of(path) == before
        got = attempt(server, "hostile", "private", "copied", "set_id_made", "opened_newly")
        assert got == {"private": 4, "copied": "EPERM", "set_id_made": "EPERM", "opened_newly": "ENOSYS"}
        line = next(line for line in server.stdout.splitlines() if line.startswith("isolation:"))
        assert "; not names and dates of files, Unix sockets and shared memory by name: needs mounts" in line


NODE = """
import errno, fcntl, json, os, socket, termios
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        path, terminal = json.loads(bytes(inputs[0]))
        tries = {
            "stat": lambda: os.stat(path),
            "chmod": lambda: os.chmod(path, 0o666),
            "connect": lambda: socket.socket(socket.AF_UNIX).connect(path),
            "type": lambda: fcntl.ioctl(os.open(terminal, os.O_RDWR | os.O_NOCTTY), termios.TIOCSTI, b"x"),
        }
        found = {"session": os.getsid(0) == os.getpid()}
        for name, call in tries.items():
            try:
                found[name] = call() and None
            except OSError as error:
                found[name] = errno.errorcode[error.errno]
        return [Tensor("out", json.dumps(found).encode())]
"""


@pytest.mark.parametrize(
    "level", ["basic", *(pytest.param(level, marks=[ROOT_ONLY, KEEPS_FILES]) for level in ("strict", "separate"))]
)
def test_nodes_of_graphs_are_confined_as_models(terminal, secret, tmp_path, level):
    graph = single(tmp_path / "graphs", "hostile", NODE)
    options = ["--worker-isolation", level, "--worker-env", "BRAID_TEST_MARK"]
    with OvmsServer(graphs_config(graph), *options, workdir=tmp_path) as server:
        text = json.dumps([str(secret), terminal[1]]).encode()
        with grpcclient.InferenceServerClient(server.grpc) as client:
            got = client.infer("hostile", [tensor("in", np.frombuffer(text, np.uint8))]).as_numpy("out")
    found = json.loads(got.tobytes())
    if level == "basic":
        assert found == {"session": True, "stat": None, "chmod": None, "connect": "ECONNREFUSED", "type": "EPERM"}
    else:
        assert found == {"session": True, "stat": "ENOENT", "chmod": "ENOENT", "connect": "ENOENT", "type": "ENOENT"}


# ---- terminals ----

IN_A_SESSION = """
import os, sys
os.setsid()
os.open(sys.argv[1], os.O_RDWR)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture
def terminal():
    """Yields a function that types into a terminal, and the terminal's name."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    yield master, os.ttyname(slave)
    os.close(slave)
    os.close(master)


LEVELS_OF_ROOT = [pytest.param(level, "fresh", marks=[ROOT_ONLY, KEEPS_FILES]) for level in ("strict", "separate")]


@pytest.mark.parametrize(("level", "start"), [("basic", "fork"), ("basic", "fresh"), *LEVELS_OF_ROOT])
def test_no_worker_types_into_the_terminal(terminal, hostile, level, start):
    """No worker can type into the server's terminal, because none is in its session."""
    master, name = terminal
    server = hostile(
        "--worker-isolation", level, "--worker-start", start, "--worker-env", "BRAID_TEST_MARK", models=["hostile"],
        through=[sys.executable, "-c", IN_A_SESSION, name],
    )  # fmt: skip
    refused = "EPERM" if level == "basic" else "ENOENT"
    got = attempt(server, "hostile", "type", "select", tty=name)
    assert got == {"type": refused, "select": refused}
    assert attempt(server, "hostile", "terminal")["terminal"] in ("ENXIO", "ENOENT")
    assert attempt(server, "hostile", "session") == {"session": True}
    with pytest.raises(BlockingIOError):
        os.read(master, 100)


# ---- separate ----


@ROOT_ONLY
@KEEPS_FILES
def test_separate_has_a_machine_of_its_own(hostile):
    server = hostile(
        "--worker-isolation", "separate", "--worker-env", "BRAID_TEST_MARK", "--worker-user-ids", "70001-70099"
    )
    got = attempt(
        server,
        "hostile",
        "user",
        "own_pid",
        "capabilities",
        "private",
        "shm",
        "tcp",
        port=int(server.http.rpartition(":")[2]),
    )
    user, group, groups = got["user"]
    assert 70001 <= user <= 70099
    assert (group, groups) == (user, [])
    assert got["own_pid"] == 1
    assert int(got["capabilities"], 16) == 1 << 2, "to read files (CAP_DAC_READ_SEARCH), of those that it reaches"
    assert got["private"] == 4
    assert got["shm"] == []
    assert got["tcp"] == "ECONNREFUSED", "its loopback interface is another"
    other = attempt(server, "other", "user")["user"][0]
    assert 70001 <= other <= 70099
    assert other != user
    assert attempt(server, "hostile", "read", path="/run/utmp") == {"read": "ENOENT"}
    assert attempt(server, "hostile", "processes") == {"processes": [1]}


@ROOT_ONLY
@KEEPS_FILES
def test_separate_ends_a_fork_bomb(hostile):
    server = hostile("--worker-isolation", "hostile=separate", "--worker-env", "BRAID_TEST_MARK")
    assert attempt(server, "hostile", "forks") == {"forks": "EAGAIN"}
    assert attempt(server, "other", "private") == {"private": 4}


def user_of(pid):
    """Returns the user of a process, as seen from this one."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Uid:"))


def namespace_of_users():
    """Returns the command that starts a program in a user namespace where the user is root, and the only one."""
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("user namespaces are refused here, as in a chroot")
    return command


@contextlib.contextmanager
def subordinate(repository, *options, **arguments):
    """A server of a user that is not root and has 1,000 subordinate ids."""
    namespace_of_users()
    repository.add("hostile", HOSTILE, config("hostile", TEXT, OUT))
    repository.add("other", HOSTILE, config("other", TEXT, OUT))
    user, first, count = 65534, 300000, 1000
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(repository.path, f"{folder}/models")
        os.mkdir(f"{folder}/temporary")
        for path in (folder, *pathlib.Path(folder).rglob("*")):
            os.chown(path, user, user)
        through = [sys.executable, pathlib.Path(harness.__file__).parent / "subordinate_ids.py", user, first, count]
        options = ("--worker-isolation", "separate", "--worker-env", "BRAID_TEST_MARK", *options)
        env = {"TMPDIR": f"{folder}/temporary"}
        with Server([f"{folder}/models"], *options, workdir=folder, through=through, env=env, **arguments) as server:
            yield server
        assert os.listdir(f"{folder}/temporary") == []


@ROOT_ONLY
@KEEPS_FILES
def test_separate_by_subordinate_ids(repository):
    """With subordinate ids, level separate works as for root, in a user namespace."""
    with subordinate(repository, "--worker-user-ids", "1-1000") as server:
        assert user_of(server.process.pid) == 65534
        users = {attempt(server, name, "user")["user"][0] for name in ("hostile", "other")}
        assert len(users) == 2
        assert users <= set(range(1, 1001))
        outside = {user_of(pid) for pid in children(server.process.pid)} - {65534}
        assert outside == {299999 + user for user in users}
        got = attempt(
            server, "hostile", "own_pid", "capabilities", "private", "shm", "tcp", "processes", "forks",
            port=int(server.http.rpartition(":")[2]),
        )  # fmt: skip
        assert got.pop("processes") == [1]
        assert got == {
            "own_pid": 1,
            "capabilities": f"{1 << 2:016x}",
            "private": 4,
            "shm": [],
            "tcp": "ECONNREFUSED",
            "forks": "EAGAIN",
        }
        assert attempt(server, "other", "private") == {"private": 4}


@ROOT_ONLY
@KEEPS_FILES
def test_separate_names_the_ids_that_there_are(repository):
    with subordinate(repository, ready=False, listening=False) as server:
        server.wait_exit()
        server.stop(status=1)
        assert (
            "--worker-isolation=separate is not possible here: --worker-user-ids 1879048192-1879052287 are not all mapped "
            "here; /proc/self/uid_map has 0-0, 1-1000" in server.stderr
        )


@pytest.mark.parametrize(
    "options", [["separate"], ["basic", "--worker-isolation=classify=separate"]], ids=["all", "one"]
)
def test_a_level_is_tried_by_a_server_that_has_no_worker_yet(options, tmp_path):
    through = namespace_of_users()
    options = ["--worker-isolation", *options]
    config = {"model_config_list": []}
    with OvmsServer(config, *options, workdir=tmp_path, through=through, ready=False, listening=False) as server:
        server.wait_exit()
        server.stop(status=1)
        assert "separate is not possible here: --worker-user-ids 1879048192-1879052287 are not all" in server.stderr
    with OvmsServer(config, "--worker-isolation", "basic", workdir=tmp_path, through=through):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="for users that are not root")
def test_separate_without_root_is_refused(repository, serve):
    repository.add("hostile", HOSTILE, config("hostile", TEXT, OUT))
    server = serve(repository, "--worker-isolation", "separate", ready=False, listening=False)
    assert server.wait_exit() == 1
    assert "--worker-isolation=separate is not possible here: it needs root" in server.stderr


# ---- what libraries need ----

LIBRARIES = per_request(
    """
    import concurrent.futures, math, multiprocessing, subprocess, sys, threading
    from multiprocessing import shared_memory

    found = {}
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found["pool"] = pool.map(math.sqrt, [4, 9])
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        found["spawned"] = list(pool.map(math.sqrt, [16, 25]))
    block = shared_memory.SharedMemory(create=True, size=64)
    block.buf[0] = 7
    found["shared"] = block.buf[0]
    block.close()
    block.unlink()
    queue = multiprocessing.Queue()
    queue.put("through a queue")
    found["queue"] = queue.get(timeout=20)
    found["program"] = subprocess.run(["/bin/echo", "hello"], capture_output=True, text=True).stdout
    matrix = np.arange(250000, dtype=np.float64).reshape(500, 500)
    found["product"] = float((matrix @ matrix)[1, 1])
    try:
        import joblib
        found["loky"] = joblib.Parallel(2, backend="loky")(joblib.delayed(math.sqrt)(i) for i in [36, 49])
    except ImportError:
        found["loky"] = [6.0, 7.0]
    try:
        from sklearn.ensemble import RandomForestClassifier
        forest = RandomForestClassifier(8, n_jobs=2, random_state=0).fit([[0], [1]] * 8, [0, 1] * 8)
        found["forest"] = forest.predict([[0], [1]]).tolist()
    except ImportError:
        found["forest"] = [0, 1]
    return respond(OUT=np.array([json.dumps(found).encode()], dtype=object))
    """
)


@pytest.mark.parametrize("level", ["none", "basic", "strict", pytest.param("separate", marks=ROOT_ONLY)])
def test_libraries_work_at_each_level(repository, serve, level):
    if level in ("strict", "separate") and landlock() < 1:
        pytest.skip("needs Landlock")
    repository.add("libraries", LIBRARIES, config("libraries", TEXT, OUT))
    server = serve(repository, "--worker-isolation", level, "--worker-env", "BRAID_TEST_MARK")
    found = ask(server, "libraries", "")
    matrix_1_1 = sum((500 + i) * (500 * i + 1) for i in range(500))
    assert found == {
        "pool": [2.0, 3.0],
        "spawned": [4.0, 5.0],
        "shared": 7,
        "queue": "through a queue",
        "program": "hello\n",
        "product": float(matrix_1_1),
        "loky": [6.0, 7.0],
        "forest": [0, 1],
    }


# ---- packed environments ----


def test_what_unpacks_an_environment_reaches_nothing_else(repository, serve, tmp_path):
    """The process that unpacks an environment reaches no other files. If it dies, the load fails, and nothing is left
    behind."""
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        entry = tarfile.TarInfo("large")
        entry.size = 1 << 30
        with open("/dev/zero", "rb") as zeros:
            tar.addfile(entry, zeros)
    parameter = f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{archive}" }} }}'
    repository.add("packed", HOSTILE, config("packed", TEXT, OUT, extra=parameter))
    server = serve(repository, "--model-control-mode=explicit")
    answers = []
    loading = threading.Thread(
        target=lambda: answers.append(server.json("POST", "/v2/repository/models/packed/load", {}))
    )
    loading.start()

    def unpacking():
        for pid in children(server.process.pid):
            with contextlib.suppress(OSError):
                if b"unpack-environment" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    # It must have confined itself first.
                    if "Seccomp_filters:\t2" in status:
                        return pid, status
        return None

    pid, status = wait_until(unpacking, 20, "the process that unpacks")
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert sorted(os.listdir(f"/proc/{pid}/fd"))[:4] == ["0", "1", "2", "3"]
    os.kill(pid, signal.SIGKILL)
    loading.join()
    ((code, answer),) = answers
    assert code == 400
    assert "environment archive 'environment.tar.gz': its unpacking process ended early" in answer["error"]


def test_the_start_says_what_holds(hostile):
    server = hostile()
    line = next(line for line in server.stdout.splitlines() if line.startswith("isolation:"))
    assert line.startswith("isolation: basic (")
    assert "memory and environment" in line.split("; not ")[0]
    assert ("signals" in line.split("; not ")[0]) == (landlock() >= 6)
    assert ("settings of processes in /proc" in line) == (os.geteuid() == 0)


def test_wrong_options_are_refused(repository):
    for option, text in (
        ("--worker-isolation=severe", "unknown isolation level 'severe'; expected none, basic, strict or separate"),
        ("--worker-isolation==basic", "has no model name before the '='"),
        ("--worker-path=relative", "'relative' is not an absolute path"),
        ("--worker-env=A=B", "'A' must be only a variable name"),
        ("--worker-user-ids=5-4", "out of range 5 to"),
    ):
        done = subprocess.run([BINARY, "serve", repository.path, option], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert text in done.stderr, option
