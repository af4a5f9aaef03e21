"""The Debian packages and the container image: built here from the server under test, and inspected without
installation.

tests/install/run installs them in bare systems, which takes some minutes.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import tritonclient.grpc as grpcclient
from harness import custom_nodes
from harness.server import BINARY
from harness.waiting import wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import program_help  # noqa: E402

TOOLS = {"dh": "debhelper", "lintian": "lintian", "man": "man-db", "zsh": "zsh", "fish": "fish", "skopeo": "skopeo"}
MISSING = sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)
# The time of the first test includes building the packages.
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs apt-get install {' '.join(MISSING)}"),
    pytest.mark.timeout(600),
]


def output(*command, **more):
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, **more)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The folder with both packages."""
    folder = tmp_path_factory.mktemp("packages")
    environment = {**os.environ, "BUILD_FOLDER": str(pathlib.Path(BINARY).parent), "COMPRESSION": "gzip"}
    output(ROOT / "scripts/build-deb", folder, env=environment)
    return folder


@pytest.fixture(scope="module")
def braid(packages):
    (found,) = packages.glob("braid_*.deb")
    return found


@pytest.fixture(scope="module")
def unpacked(braid, tmp_path_factory):
    """The files that the package installs."""
    folder = tmp_path_factory.mktemp("unpacked")
    output("dpkg-deb", "-x", braid, folder)
    return folder


@pytest.fixture(scope="module")
def commands():
    return program_help.commands(BINARY)


def listed(package):
    """Returns the modes and owners of a package's files, by name."""
    found = {}
    for line in output("dpkg-deb", "-c", package).splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        found[name.removeprefix(".")] = (mode, owner)
    return found


def test_the_package_has_the_server_and_what_it_needs(braid, unpacked):
    files = listed(braid)
    assert files["/usr/bin/braid"] == ("-rwxr-xr-x", "root/root")
    for name in (
        "/etc/braid/braid.conf",
        "/lib/systemd/system/braid.service",
        "/usr/lib/braid/libbraid_opencv.so",
        "/usr/lib/braid/worker/_braid_worker.abi3.so",
        "/usr/lib/braid/worker/triton_python_backend_utils.py",
        "/usr/lib/sysusers.d/braid.conf",
        "/usr/share/braid/examples/models/add_sub/1/model.py",
        "/usr/share/braid/include/braid_calculator.h",
        "/usr/share/braid/skeletons/python/README.md",
        "/usr/share/man/man1/braid.1.gz",
        "/var/lib/braid/models/",
    ):
        assert name in files
    for name in custom_nodes.FILES:
        assert f"/usr/lib/braid/custom_nodes/{name}" in files
    assert output("dpkg-deb", "-I", braid, "conffiles").split() == ["/etc/braid/braid.conf"]
    # The service creates sequences and caches, but only reads models.
    assert files["/var/lib/braid/models/"] == ("drwxr-xr-x", "root/root")
    needed = output("readelf", "-d", unpacked / "usr/bin/braid")
    assert re.search(r"RUNPATH.*\[/usr/lib/braid\]", needed)
    for library in re.findall(r"NEEDED.*\[(lib(?:openvino|tbb)\S*)\]", needed):
        assert f"/usr/lib/braid/{library}" in files


def test_packages_name_what_they_are_linked_with(braid, packages):
    depends = output("dpkg-deb", "-f", braid, "Depends")
    for name in ("python3-numpy", "libprotobuf32", "libssl3", "libnghttp2-14", "systemd-standalone-sysusers"):
        assert name in depends
    # A hundred packages, which only encoded images need.
    assert "opencv" not in depends
    assert "libopencv-imgcodecs406" in output("dpkg-deb", "-f", braid, "Recommends")
    (openvino,) = packages.glob("braid-openvino_*.deb")
    version = output("dpkg-deb", "-f", braid, "Version").strip()
    assert f"braid (= {version})" in output("dpkg-deb", "-f", openvino, "Depends")
    files = listed(openvino)
    assert "/usr/lib/braid/libopenvino_intel_cpu_plugin.so" in files
    for part in ("ir", "onnx", "paddle", "tensorflow", "tensorflow_lite"):
        assert any(name.startswith(f"/usr/lib/braid/libopenvino_{part}_frontend.so") for name in files)
    # No file belongs to both packages.
    assert not {name for name in files if not name.endswith("/")} & set(listed(braid))


def test_versions_agree(braid):
    version = re.search(r"project\(braid VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    assert output("dpkg-deb", "-f", braid, "Version").strip() == version
    assert f"image: braid:{version}\n" in (ROOT / "deploy/compose.yaml").read_text()


def test_lintian_has_nothing_to_say(packages):
    said = output("lintian", "--allow-root", "--fail-on", "error,warning", *packages.glob("*.deb"))
    assert said == ""


def test_every_file_bears_the_time_of_the_build(packages):
    for package in packages.glob("*.deb"):
        times = {line.split()[3:5][0] + line.split()[4] for line in output("dpkg-deb", "-c", package).splitlines()}
        assert len(times) == 1


def test_programs_are_hardened(packages):
    command = [sys.executable, ROOT / "scripts/check-hardening", "--run-path", "/usr/lib/braid"]
    said = output(*command, *sorted(packages.glob("*.deb")))
    hardened = re.findall(r"(\S+): hardened$", said, re.M)
    assert sorted(pathlib.Path(name).name for name in hardened) == [
        "_braid_worker.abi3.so",
        "braid",
        "libbraid_opencv.so",
        *custom_nodes.FILES,
    ]


def test_bills_of_materials(braid, packages, bill_of):
    bill = bill_of(braid)
    root = bill["metadata"]["component"]
    assert root["purl"] == f"pkg:deb/braid/braid@{root['version']}?arch=amd64"
    parts = {part["name"]: part for part in bill["components"]}
    kinds = {name: {one["name"]: one["value"] for one in part["properties"]} for name, part in parts.items()}
    assert kinds["libssl3"] == {"braid:how": "needed", "braid:versions": kinds["libssl3"]["braid:versions"]}
    assert kinds["python3"]["braid:versions"] == ">= 3.11"
    assert parts["libopencv-core406"]["scope"] == "optional"
    assert kinds["openvino"]["braid:how"] == "bundled"
    assert {pathlib.Path(file["name"]).name.partition(".so")[0] for file in parts["openvino"]["components"]} == {
        "libopenvino",
        "libtbb",
        "libtbbmalloc",
    }
    assert kinds["libboost1.81-dev"]["braid:how"] == "compiled in"
    assert "usr/bin/braid" in {file["name"] for file in root["components"]}
    (openvino,) = packages.glob("braid-openvino_*.deb")
    bill = bill_of(openvino)
    parts = {part["name"]: part for part in bill["components"]}
    files = {file["name"] for file in parts["openvino"]["components"]}
    assert "usr/lib/braid/libopenvino_intel_cpu_plugin.so" in files
    # It contains no machine code of Braid's.
    assert "libboost1.81-dev" not in parts


def test_the_unit_is_valid_and_fenced(unpacked, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs apt-get install systemd")
    unit = tmp_path / "braid.service"
    text = (unpacked / "lib/systemd/system/braid.service").read_text()
    assert text == (ROOT / "deploy/braid.service").read_text()
    # Uses this machine's program instead of the installed one, because systemd checks that it exists.
    unit.write_text(text.replace("/usr/bin/braid", str(BINARY)))
    ran = subprocess.run(["systemd-analyze", "--man=no", "verify", unit], capture_output=True, text=True, timeout=60)
    assert "braid.service" not in ran.stderr, ran.stderr
    # In tenths; an unprotected service has 96, and "OK" ends with 30.
    output("systemd-analyze", "security", "--offline=yes", "--threshold=15", unit)


def test_the_options_of_the_service_are_taken(unpacked):
    """The server accepts the options in the service's file, read by a shell, like the tests in bare systems."""
    script = f'. {unpacked}/etc/braid/braid.conf && exec "$0" serve $BRAID_OPTIONS --print-config'
    rows = {line.split()[0]: line.split()[1] for line in output("sh", "-c", script, BINARY).splitlines()}
    assert rows["http-address"] == "127.0.0.1"
    assert rows["model-repository"] == "/var/lib/braid/models"


def test_the_options_that_the_service_s_file_proposes_exist(commands):
    text = (ROOT / "deploy/braid.conf").read_text()
    known = {option.name for command in commands for option in command.options} | {"port", "rest_port"}
    proposed = set(re.findall(r"--([a-z][\w-]*)", text))
    assert proposed <= known | {"print-config"}


def test_the_man_page_renders_and_has_every_option(unpacked, commands):
    page = unpacked / "usr/share/man/man1/braid.1.gz"
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "120"}
    ran = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, env=environment, timeout=60)
    assert ran.stderr == ""
    for command in commands:
        assert f"braid {command.name}" in ran.stdout
        for option in command.options:
            assert re.search(rf"^ +--{option.name}[ \[\n]", ran.stdout, re.M), option.name


class TestCompletions:
    def test_of_bash(self, unpacked, commands):
        script = f"""
            . {unpacked}/usr/share/bash-completion/completions/braid
            complete_words() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _braid; printf '%s\\n' "${{COMPREPLY[@]}}"; }}
            "$@"
        """

        def complete(*words):
            return output("bash", "-c", script, "bash", "complete_words", "braid", *words).split()

        assert set(complete("")) == {*(command.name for command in commands), "--help", "--version"}
        for command in commands:
            assert complete(command.name, "--") == [f"--{option.name}" for option in command.options]
        assert complete("serve", "--grpc-po") == ["--grpc-port"]
        assert complete("serve", "--http-port", "") == []
        assert f"{unpacked}/usr" in complete("serve", "--model-repository", f"{unpacked}/u")
        assert f"{unpacked}/usr" in complete("serve", "--model-repository", "=", f"{unpacked}/u")

    def test_of_zsh(self, unpacked, commands):
        page = unpacked / "usr/share/zsh/vendor-completions/_braid"
        output("zsh", "-n", page)
        text = page.read_text()
        for command in commands:
            for option in command.options:
                assert re.search(rf"'\*?--{option.name}[=\[]", text), option.name

    def test_of_fish(self, unpacked, commands):
        page = unpacked / "usr/share/fish/vendor_completions.d/braid.fish"
        environment = {**os.environ, "HOME": str(unpacked)}

        def complete(line):
            said = output("fish", "--private", "-c", f"source {page}; complete -C '{line}'", env=environment)
            return {each.split("\t")[0] for each in said.splitlines()}

        assert complete("braid ") >= {command.name for command in commands}
        for command in commands:
            assert complete(f"braid {command.name} --") >= {f"--{option.name}" for option in command.options}


def blob(layout, described):
    data = (layout / "blobs" / described["digest"].replace(":", "/")).read_bytes()
    assert len(data) == described["size"]
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == described["digest"]
    return data


def test_the_image_is_one_that_tools_read(packages, unpacked, tmp_path):
    """Common tools can read the image. Its root has little more than the package's files; with Debian it takes minutes
    (tests/install/run)."""
    root = tmp_path / "root.tar"
    information = tmp_path / "var/lib/dpkg/info"
    information.mkdir(parents=True)
    (braid,) = packages.glob("braid_*.deb")
    (information / "braid.list").write_text("\n".join(name.rstrip("/") or "/." for name in listed(braid)))
    (tmp_path / "etc-passwd").write_text("braid:x:1000:1000::/:/usr/sbin/nologin\n")
    with tarfile.open(root, "w") as tar:
        tar.add(unpacked, ".")
        tar.add(tmp_path / "etc-passwd", "./etc/passwd")
        tar.add(tmp_path / "var", "./var")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    output(ROOT / "scripts/build-image", "--root", root, packages, env=environment)
    layout, archive = packages / "braid-oci", packages / "braid-oci.tar"
    version = output("dpkg-deb", "-f", braid, "Version").strip()

    inspected = json.loads(output("skopeo", "inspect", f"oci:{layout}:{version}"))
    assert inspected["Architecture"] == "amd64"
    assert json.loads(output("skopeo", "inspect", f"docker-archive:{archive}"))["Layers"]
    (described,) = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(layout, described))
    config = json.loads(blob(layout, manifest["config"]))
    assert config["config"]["User"] == "1000:1000"
    assert config["config"]["Entrypoint"] == ["/usr/bin/braid"]
    assert config["config"]["Healthcheck"]["Test"] == ["CMD", "/usr/bin/braid", "health"]
    # The health check survives the conversion to Docker's format.
    output(
        "skopeo", "copy", "--quiet", f"oci-archive:{archive}", f"docker-archive:{tmp_path}/docker.tar:braid:{version}"
    )
    with tarfile.open(tmp_path / "docker.tar") as tar:
        (listing,) = json.load(tar.extractfile("manifest.json"))
        assert json.load(tar.extractfile(listing["Config"]))["config"]["Healthcheck"] == config["config"]["Healthcheck"]

    names = []
    for layer in manifest["layers"]:
        blob(layout, layer)
        with tarfile.open(layout / "blobs" / layer["digest"].replace(":", "/")) as tar:
            names.append({member.name for member in tar})
    debian, ours = names
    assert "usr/bin/braid" in ours
    assert "etc/passwd" in debian
    assert not debian & ours

    # A second build is identical.
    first = hashlib.sha256(archive.read_bytes()).hexdigest()
    output(ROOT / "scripts/build-image", "--root", root, packages, env=environment)
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == first


def test_the_compose_file_says_what_the_image_does(commands):
    text = (ROOT / "deploy/compose.yaml").read_text()
    known = {f"--{option.name}" for command in commands for option in command.options}
    known |= {"--sequence-state-path"}
    assert set(re.findall(r"(?<=[ \[])--[a-z][\w-]*(?=[,\] ])", text)) <= known


class TestHealth:
    def ask(self, *words):
        ran = subprocess.run([BINARY, "health", *words], capture_output=True, text=True, timeout=60)
        return ran.returncode, ran.stdout, ran.stderr

    def test_of_a_server(self, serve, repository):
        repository.add_identity("m")
        server = serve(repository)
        for address in (server.http, f"http://{server.metrics}"):
            assert self.ask(address) == (0, f"{address} is ready\n", "")
        assert self.ask("--live", server.http) == (0, f"{server.http} is live\n", "")

    def test_of_a_server_whose_model_is_not_there(self, serve, repository):
        repository.add_identity("m")
        (repository.path / "m/1/model.py").write_text("syntax error")
        server = serve(repository, "--exit-on-error=false", ready=False)
        head = "{} is not ready: it answered with status 400\n"
        why = "  m version 1 is UNAVAILABLE: Internal: SyntaxError: invalid syntax (model.py, line 1)\n"
        for address in (server.http, server.metrics):
            wait_until(lambda address=address: "UNAVAILABLE" in self.ask(address)[2], 20, "the end of the load")
            assert self.ask(address) == (1, "", head.format(address) + why)
        assert self.ask("--live", server.http)[0] == 0

    def test_of_a_server_with_a_configuration_that_cannot_be_read(self, serve, repository):
        repository.add_identity("good")
        repository.add("m", config_text='max_batch_sise: "8"\ninput [')
        server = serve(repository, "--exit-on-error=false", ready=False)
        wait_until(lambda: "max_batch_sise" in server.stdout, 20, "the table at start")
        entry = next(each for each in server.json("POST", "/v2/repository/index", {})[1] if each["name"] == "m")
        assert entry.keys() == {"name", "state", "reason"}
        assert entry["state"] == "UNAVAILABLE"
        why = entry["reason"].partition("\n")[0]
        assert "max_batch_sise" in why
        assert re.search(rf"^m +- +- +- +not loaded: {re.escape(why)}$", server.stdout, re.MULTILINE)
        with grpcclient.InferenceServerClient(server.grpc) as client:
            (told,) = (each for each in client.get_model_repository_index().models if each.name == "m")
        assert (told.version, told.state, told.reason) == ("", "UNAVAILABLE", entry["reason"])
        assert f"  m is UNAVAILABLE: {why}\n" in self.ask(server.http)[2] or self.ask(server.http)[0] == 0

    def test_of_nothing(self):
        assert self.ask("127.0.0.1:1") == (1, "", "127.0.0.1:1 is not ready: Connection refused\n")

    def test_refuses_what_it_does_not_understand(self):
        assert self.ask("--timeout", "0")[2].startswith("braid health: --timeout: '0' is not a whole number from 1 to")
        assert self.ask("--what")[2].startswith("braid health: unknown option '--what'\n")
        assert self.ask("a", "b")[2].startswith("braid health: only one URL is allowed; 'b' is a second one\n")
