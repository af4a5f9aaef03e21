"""Every code block of the documentation is run, as a reader does who pastes one after the other; links lead somewhere."""

import functools
import re

import pytest
from harness.pages import Reader, blocks, blocks_of, pages
from harness.server import ROOT

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")

# The blocks that are not run, by their beginnings, and why. A block that is new is run, or fails, until it stands here.
WHEEL = "tests/test_wheel.py does it, with the wheel"
PACKAGE = "tests/install/run does it, in a bare system"
PROMETHEUS = "tests/test_dashboards.py does it, with a Prometheus"
CLUSTER = "needs a cluster; tests/test_kubernetes.py judges the manifests"
FLEET = "tests/test_fleet_envoy.py does it, with three servers and an Envoy"
GENERATED = "tests/test_openapi.py does it, in an environment of the generator's own"
NOT_RUN = {
    "README.md": {"make test": "this test is a part of it"},
    "docs/bench.md": {
        "build/braid bench -m add_sub --concurrency-range": "takes more than a minute",
        "build/braid bench -m add_sub -u one:8000": "two servers on other machines",
    },
    "docs/benchmarks-gpu.md": {"tests/gpu/run": "tests/test_gpu_run.py does it"},
    "docs/campaigns.md": {
        "make test": "tests/test_campaigns.py runs the campaigns, for seconds",
        "cmake --preset": "takes minutes",
    },
    "docs/check.md": {"build/braid check --report": "files of the reader's own"},
    "docs/dashboards.md": {"scripts/public-clients": PROMETHEUS, "curl -s localhost:9090": PROMETHEUS},
    "docs/fleet-routing.md": {
        "braid fleet envoy": FLEET,
        "braid fleet reload": "tests/test_fleet_reload.py does it, with several servers",
        "braid try running_sum": FLEET,
        "make fleet": "tests/test_fleet_here.py does it, with two servers",
        "braid fleet status": "tests/test_fleet_status.py does it, with several servers",
    },
    "docs/install.md": {
        "python3 -m venv env": WHEEL,
        "import braid": WHEEL,
        "with braid.Server(": WHEEL,
        "apt-get install": PACKAGE,
        "BRAID_OPTIONS=": "a file's content",
        "systemctl restart braid": PACKAGE,
        "docker load": PACKAGE,
        "braid health": PACKAGE,
    },
    "docs/kubernetes.md": {
        "kubectl ": CLUSTER,
        "helm ": CLUSTER,
        "braid fleet envoy": FLEET,
    },
    "docs/metrics-and-tracing.md": {
        "context = request.trace()": "a part of a model, with a package that is not installed"
    },
    "docs/openapi.md": {
        "python3 -m venv": GENERATED,
        "from braid_client": GENERATED,
        "/tmp/generator/bin/python": GENERATED,
    },
    "docs/performance.md": {"make bench": "takes an hour, and a tritonserver"},
    "docs/protocols.md": {
        "grpcurl ": "tests/test_public_clients_grpcurl.py does it",
        "tests/conformance/run": "needs Go and minutes",
    },
    "docs/security.md": {
        "make fuzz": "takes minutes",
        "tests/attacks/run": "takes minutes",
        ".venv/bin/python -m pytest -q tests/test_security.py": "this suite does it",
    },
    "docs/supply-chain.md": {
        "make audit": "tests/test_supply_chain.py and tests/test_wheel.py do it",
        "make lock": "asks an index for each package",
        ".venv/bin/python scripts/check-hardening": "tests/test_hardening.py does it",
    },
    "examples/gpu/README.md": {"PYTHONPATH=": "needs a GPU; tests/test_gpu_example.py does it on the stand-in"},
}


@pytest.fixture(scope="module")
def examples_server(module_serve):
    return functools.cache(lambda: module_serve(ROOT / "examples" / "models"))


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)])
def test_blocks_of_a_page(page, tmp_path, examples_server):
    left_out = NOT_RUN.get(page, {})
    with Reader(tmp_path, examples_server) as reader:
        for block in blocks(page):
            if not any(block.begins(beginning) for beginning in left_out):
                reader.run(block)


@pytest.mark.parametrize("page", NOT_RUN)
def test_what_is_not_run_is_there(page):
    for beginning in NOT_RUN[page]:
        assert any(block.begins(beginning) for block in blocks(page)), f"{page}: no block begins with {beginning!r}"


# Pages that are written by programs, and the one that is about the source. README.md says first what Braid is.
TO_READ = ("docs/architecture.md", "docs/benchmarks")


@pytest.mark.parametrize("page", [page for page in pages() if page != "README.md" and not page.startswith(TO_READ)])
def test_a_page_begins_with_something_to_paste(page):
    beginning, _, _ = (ROOT / page).read_text(encoding="utf-8").partition("\n## ")
    assert any(block.language == "sh" or block.name for block in blocks_of(beginning)), page


def test_ratios_of_the_readme():
    """The figures are those of the benchmark's last run: (load, throughput, p50, CPU)."""
    measured = re.findall(
        r"^\| (W\d+\w* [^|]+) \| ([\d.]+) [^|]*\|[^|]*\| ([\d.]+) [^|]*\|[^|]*\| ([\d.]+) ",
        (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    shown = re.findall(
        r"^\| (W\d+\w* [^|]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(shown) == 18
    assert shown == measured[: len(shown)]


@pytest.mark.parametrize("page", pages())
def test_links_of_a_page_lead_somewhere(page):
    for target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / target).exists(), target
