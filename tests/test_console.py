"""The console in a real browser: every view of a real server, and all actions."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from harness.browser import CHROMIUM, DESKTOP, MISSING, PHONE, Tab, chromium
from harness.chat_models import add_chat
from harness.fleets import Fleet, FrontClients
from harness.ovms import OvmsServer
from harness.pictures import png
from harness.repository import Repository, config, per_request
from harness.server import BINARY, ROOT, Server
from harness.waiting import wait_until
from playwright.sync_api import expect

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

PRINTER = per_request("print('saw', get(request, 'IN').tolist(), flush=True)\nreturn respond(OUT=get(request, 'IN'))")
TWO = """
..#####....
.##...##...
......##...
......##...
.....##....
...##......
..##.......
.########..
"""
VIEWS = [
    "",
    "models",
    "log",
    "models/add_sub/1",
    "models/add_sub/1/try",
    "models/add_sub/1/workers",
    "models/add_sub/1/log",
    "models/add_sub/1/traces",
    "models/add_sub/1/configuration",
    "models/digits/1/structure",
    "models/digits/1/try",
    "models/repeat/1/try",
    "models/running_sum/1/sequences",
    "models/broken/1",
]


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The example models, one that prints, one with 16-bit numbers, and one that cannot be loaded."""
    folder = tmp_path_factory.mktemp("console") / "models"
    shutil.copytree(ROOT / "examples" / "models", folder)
    # A browser may take longer between two steps of a sequence.
    settings = folder / "running_sum" / "config.pbtxt"
    settings.write_text(settings.read_text().replace("idle_microseconds: 5000000", "idle_microseconds: 60000000"))
    repository = Repository(folder)
    one = ([("IN", "FP32", [1])], [("OUT", "FP32", [1])])
    repository.add("printer", PRINTER, config(None, *one))
    repository.add("halves", config_text=config(None, [("IN", "FP16", [-1])], [("OUT", "FP16", [-1])]))
    repository.add("longs", config_text=config(None, [("IN", "INT64", [-1])], [("OUT", "INT64", [-1])]))
    repository.add("truths", config_text=config(None, [("IN", "BOOL", [-1])], [("OUT", "BOOL", [-1])]))
    repository.add("broken", "raise RuntimeError('the weights are missing')", config(None, *one))
    repository.add("unreadable", config_text="no_such_field: 1")
    options = ["--model-control-mode=explicit", "--load-model=*", "--exit-on-error=false", "--strict-readiness=false"]
    with Server([folder], *options, workdir=tmp_path_factory.mktemp("server"), ready=False) as server:
        wait_until(lambda: server.request("GET", "/v2/models/add_sub/ready")[0] == 200, 60, "add_sub")
        wait_until(lambda: state(server, "broken") == "UNAVAILABLE", 60, "the end of loading")
        yield server


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    sys.path.insert(0, str(ROOT / "examples" / "pipelines"))
    try:
        import prepare

        folder = tmp_path_factory.mktemp("pipelines")
        prepare.prepare(folder, BINARY.parent / "examples" / "custom_nodes")
    finally:
        sys.path.pop(0)
        sys.modules.pop("prepare", None)
        sys.modules.pop("make_models", None)
    with OvmsServer(folder / "config.json", workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """The example graphs that need no models."""
    folder = tmp_path_factory.mktemp("graphs")
    for name in ["increment", "generate"]:
        shutil.copytree(ROOT / "examples" / "graphs" / name, folder / name)
    names = [{"name": name} for name in ["increment", "generate"]]
    (folder / "config.json").write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": names}))
    with OvmsServer(folder / "config.json", workdir=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Returns (two servers with a model in different versions, a third one configured with these two and a missing
    one)."""
    folder = tmp_path_factory.mktemp("fleet")
    Repository(folder / "two" / "models").add_identity("asleep")
    loads = ["--model-control-mode=explicit", "--load-model=sums", "--load-model=work"]
    with Fleet(folder, ("one", "two"), *loads) as fleet:
        work = fleet.folder("two") / "models" / "work"
        shutil.copytree(work / "1", work / "2")
        assert fleet.replicas["two"].json("POST", "/v2/repository/models/work/load", {})[0] == 200
        repository = Repository(folder / "models")
        repository.add_identity("m")
        where = f"--fleet-endpoints={fleet.endpoints()},127.0.0.1:1"
        with Server([repository.path], where, workdir=tmp_path_factory.mktemp("server")) as server:
            yield fleet, server


def rows(server):
    status, _, body = server.request("GET", "/console/api/models", address=server.metrics)
    assert status == 200
    return json.loads(body)["models"]


def state(server, name):
    return next((row["state"] for row in rows(server) if row["name"] == name and row["version"]), "")


def add_sub(server, value=1.0):
    tensor = {"shape": [4], "datatype": "FP32", "data": [value] * 4}
    body = {"inputs": [{"name": "INPUT0", **tensor}, {"name": "INPUT1", **tensor}]}
    status, answer = server.json("POST", "/v2/models/add_sub/infer", body)
    assert status == 200, answer


@contextlib.contextmanager
def repeatedly(request):
    """Repeats `request` during the block, with short pauses, so that views have data."""
    over = threading.Event()
    failures = []

    def run():
        try:
            while not over.wait(0.02):
                request()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failures


@pytest.fixture
def tab(browser):
    """tab(server, ...) opens a window that ends with the test, and asserts that it had no errors."""
    with contextlib.ExitStack() as stack:
        made = []

        def make(server, **options):
            made.append(stack.enter_context(Tab(browser, getattr(server, "metrics", server), **options)))
            return made[-1]

        yield make
        # A refusal by the server is an answer that the page shows; the browser also writes it to its log.
        for each in made:
            assert [text for text in each.errors if "Failed to load resource" not in text] == []


def send(page):
    page.get_by_role("button", name="Send", exact=True).click()


def number(text):
    """Returns the first number in a text of the page, as in "< 1 %"."""
    return float(re.search(r"[\d.,]+", text).group().replace(",", ""))


# ---- every view ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views_are_accessible(server, tab, scheme):
    window = tab(server, scheme=scheme)
    for view in VIEWS:
        window.open(view)
        expect(window.page.locator("h1").first).to_be_attached()
        assert window.violations() == [], view
    dark = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(int(part) for part in re.findall(r"\d+", dark)) < 64) == (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_drawings_are_accessible(pipelines, graphs, tab, scheme):
    for server, view in [(pipelines, "models/faces/1/structure"), (graphs, "models/increment/1/structure")]:
        window = tab(server, scheme=scheme)
        window.open(view)
        expect(window.page.locator(".node").first).to_be_visible()
        assert window.violations() == [], view


def test_phone(server, pipelines, tab):
    window = tab(server, size=PHONE)
    for view in VIEWS:
        window.open(view)
        assert window.overflow() <= 0, view
    window = tab(pipelines, size=PHONE)
    window.open("models/faces/1/structure")
    # The drawing runs downwards, with readable letters: each is 11 pixels or larger.
    box = window.page.locator(".node.end").first.bounding_box()
    text = window.page.locator(".node .name").nth(1)
    assert box["width"] > 70
    assert text.bounding_box()["height"] > 9
    assert window.overflow() <= 0


# ---- content ---------------------------------------------------------------------------------------------------------


def test_overview(server, tab):
    page = tab(server).open()
    with repeatedly(lambda: add_sub(server)):
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="add_sub", exact=True))
        expect(row).to_be_visible()
        rate, latency = row.get_by_role("cell").nth(0), row.get_by_role("cell").nth(1)
        wait_until(lambda: number(rate.inner_text()) > 1, 15, "a rate of add_sub")
        assert re.fullmatch(r"[\d.]+ (µs|ms)", latency.inner_text())
    ready = sum(each["state"] == "READY" for each in rows(server))
    expect(page.locator(".figure").filter(has_text="Models ready").locator(".value")).to_have_text(str(ready))
    fault = page.get_by_role("region", name="Needs a look").get_by_role("listitem").filter(has_text="broken")
    expect(fault).to_contain_text("the weights are missing")
    fault = page.get_by_role("region", name="Needs a look").get_by_role("listitem").filter(has_text="unreadable")
    expect(fault).to_contain_text("no_such_field")


def only_the_first(page, pattern):
    """Passes only the first request of a kind. Returns a function that passes all others."""
    held = []
    first, rest = threading.Event(), threading.Event()

    def take(route):
        if rest.is_set() or not first.is_set():
            first.set()
            route.continue_()
        else:
            held.append(route)

    # The pattern stays: if the last one were removed, the browser would continue held requests by itself.
    def pass_all():
        rest.set()
        while held:
            held.pop().continue_()

    page.route(pattern, take)
    return pass_all


def test_what_was_not_measured_yet_is_not_said_to_be_nothing(server, pipelines, tab):
    window = tab(server)
    page = window.page
    pass_all = only_the_first(page, "**/console/api/models")
    with repeatedly(lambda: add_sub(server)):
        window.open()
        figure = page.locator(".figure", has=page.get_by_text("Requests", exact=True)).locator(".value")
        busiest = page.get_by_role("region", name="Busiest now")
        expect(figure).to_have_text("–")
        expect(busiest).to_contain_text("The last seconds are being measured.")
        pass_all()
        wait_until(lambda: figure.inner_text() != "–" and number(figure.inner_text()) > 1, 20, "a rate")
        expect(busiest).to_contain_text("add_sub")

    window = tab(pipelines)
    page = window.page
    pass_all = only_the_first(page, "**/console/api/models/faces/versions/1")
    drawing = window.open("models/faces/1/structure").get_by_role("region", name="Drawing")
    expect(drawing).to_contain_text("The last seconds are being measured: shown since it was loaded.")
    pass_all()
    expect(drawing).to_contain_text("Nothing ran in the last seconds: shown since it was loaded.")

    def busy(route):
        answer = route.fetch()
        model = answer.json()
        for node in model["structure"]["nodes"]:
            node["started"] = node["ended"] + 1
        route.fulfill(response=answer, json=model)

    page.route("**/console/api/models/faces/versions/1", busy)
    expect(drawing).to_contain_text("What runs did not end in the last seconds: shown since it was loaded.")


def test_names_at_the_edges_of_a_drawing_are_whole(repository, serve, tab):
    long = "the_probabilities_of_all_classes"
    one = ([("IN", "FP32", [1])], [("OUT", "FP32", [1])])
    repository.add("first", config_text=config(None, one[0], [(long, "FP32", [1])]))
    repository.add("second", config_text=config(None, [(long, "FP32", [1])], one[1]))
    steps = ", ".join(
        f'{{ model_name: "{model}" model_version: -1 input_map {{ key: "{given}" value: "{given}" }} '
        f'output_map {{ key: "{made}" value: "{made}" }} }}'
        for model, given, made in [("first", "IN", long), ("second", long, "OUT")]
    )
    text = config(None, *one, backend=None, extra=f'platform: "ensemble"\nensemble_scheduling {{ step [ {steps} ] }}')
    repository.add("whole", source=None, config_text=text)
    page = tab(serve(repository)).open("models/whole/1/structure")
    expect(page.locator(".link .port").first).to_be_visible()
    texts = page.locator(".link .port").all_text_contents()
    assert "the_probabilities_of_all_classes" in texts
    boxes = [each.bounding_box() for each in page.locator(".node").all() + page.locator(".link .port").all()]
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            assert one["x"] >= other["x"] + other["width"] or other["x"] >= one["x"] + one["width"], texts


def test_charts(server, tab):
    page = tab(server).open("models/add_sub/1")
    with repeatedly(lambda: add_sub(server)):
        chart = page.get_by_role("img", name="Requests over the last ten minutes")
        expect(chart.locator("canvas")).to_be_visible()
        wait_until(
            lambda: re.search(r"now [1-9][\d.]*/s", chart.get_attribute("aria-label")), 15, "a rate in the chart"
        )
        latency = page.get_by_role("img", name="Mean latency over the last ten minutes")
        assert re.search(r"now [\d.]+ (µs|ms)", latency.get_attribute("aria-label"))


def test_models_are_searched_and_sorted(server, tab):
    page = tab(server).open("models")
    links = page.locator("[data-row]")
    everything = links.all_inner_texts()
    assert everything == sorted(everything)
    assert len(everything) == len(rows(server))
    page.get_by_role("button", name="Model", exact=False).first.click()
    assert links.all_inner_texts() == sorted(everything, reverse=True)
    page.get_by_label("Search the models").fill("digits ens")
    expect(links).to_have_text(["digits"])
    page.get_by_label("Search the models").fill("")
    page.get_by_label("State", exact=True).select_option("with faults")
    expect(links).to_have_text(["unreadable", "broken"])


def test_nodes_of_a_pipeline(pipelines, tab):
    picture = np.random.default_rng(1).integers(0, 255, (1, 64, 64, 3)).astype(np.float32)
    tensor = {"name": "image", "shape": [1, 64, 64, 3], "datatype": "FP32", "data": picture.ravel().tolist()}

    def ask():
        # A picture without faces is also answered: the pipeline has no output.
        status, answer = pipelines.json("POST", "/v2/models/faces/infer", {"inputs": [tensor]})
        assert status in (200, 204), answer

    page = tab(pipelines).open("models/faces/1/structure")
    expect(page.locator(".frame svg")).to_be_visible()
    drawn = [each.get_attribute("aria-label") for each in page.locator(".frame [aria-label]").all()]
    assert [label.split(",")[0] for label in drawn] == ["detect", "split", "age", "emotion"]
    with repeatedly(ask):
        node = page.locator('.frame a[aria-label^="detect,"]')
        wait_until(
            lambda: re.search(r", [1-9][\d.]*/s, takes [\d.]+ (µs|ms)", node.get_attribute("aria-label")), 15, "a rate"
        )
        # The same data is in the table, and animated along the edges.
        row = page.locator("table.nodes tr").filter(has_text="detect")
        assert number(row.get_by_role("cell").nth(1).inner_text()) > 0
        edge = page.get_by_role("region", name="Edges").get_by_role("row").filter(has_text="request image").first
        assert number(edge.get_by_role("cell").nth(2).inner_text()) > 0
        expect(page.locator(".node.hottest")).to_have_count(1)
        expect(page.locator(".node.hottest")).to_contain_text("slowest")
        cells = page.locator("table.nodes td:last-child")

        def shares_of_all():
            texts = cells.all_inner_texts()
            return texts if all(re.search(r"\d", text) for text in texts) else None

        texts = wait_until(shares_of_all, 15, "a share of each node")
        slowest = [number(text.removeprefix("▲").strip()) for text in texts if "▲" in text]
        assert len(slowest) == 1
        assert slowest[0] >= max(number(text) for text in texts if "▲" not in text)
    node.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("detector")


def test_drawing_is_moved_and_zoomed(pipelines, tab):
    page = tab(pipelines).open("models/reader/1/structure")
    frame = page.get_by_role("group", name="Drawing")
    view = frame.locator("svg")

    def box():
        return [float(part) for part in view.get_attribute("viewBox").split()]

    before = box()
    frame.focus()
    # The drawing is fitted again once its height is known, which may happen in between.
    wait_until(lambda: page.keyboard.press("+") or box()[2] < before[2], 5, "a closer look")
    page.keyboard.press("ArrowRight")
    zoomed = box()
    page.keyboard.press("0")
    wait_until(lambda: box()[2] > zoomed[2], 5, "all of it")
    at = frame.bounding_box()
    page.mouse.move(at["x"] + 20, at["y"] + 20)
    page.mouse.down()
    page.mouse.move(at["x"] + 80, at["y"] + 20)
    page.mouse.up()
    fitted = box()
    page.get_by_role("button", name="Zoom out").click()
    wait_until(lambda: box()[2] > fitted[2], 5, "a look from afar")


def test_graphs(graphs, tab):
    page = tab(graphs).open("models/generate/1/structure")
    expect(page.locator(".node").filter(has_text="writer")).to_contain_text("Python node")
    page.goto("/console/#/models/increment/1/try")
    page.get_by_label("datatype").select_option("FP32")
    page.get_by_label("shape").fill("2")
    page.get_by_label("Data of number").fill("1, 2.5")
    send(page)
    expect(page.get_by_role("group", name="Values of incremented")).to_contain_text("5.5")
    expect(page.get_by_label("a stream")).to_be_disabled()
    # Bytes of a Python node are shown as the text that they contain.
    page.goto("/console/#/models/generate/1/try")
    page.get_by_label("Data of prompt").fill("the")
    send(page)
    expect(page.locator(".output").filter(has_text="token").locator(".answer").first).to_have_text(re.compile(r"^\w+$"))


def test_log_of_a_model(server, tab):
    page = tab(server).open("models/printer/1/log")
    body = {"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [41.5]}]}
    assert server.json("POST", "/v2/models/printer/infer", body)[0] == 200
    line = page.locator(".line").filter(has_text="saw [41.5]")
    expect(line).to_be_visible()
    expect(line).to_contain_text("output")
    page.get_by_label("Level").select_option("errors")
    expect(line).to_have_count(0)
    page.goto("/console/#/log")
    expect(page.locator(".line").filter(has_text="saw [41.5]").get_by_role("link", name="printer")).to_be_visible()


def test_workers(server, tab):
    page = tab(server).open("models/batched/1/workers")
    row = page.get_by_role("row").filter(has_text="batched")
    process = row.get_by_role("cell").nth(1)
    expect(process).to_have_text(re.compile(r"^\d+$"))
    pid = int(process.inner_text())
    assert re.fullmatch(r"[\d.]+ MiB", row.get_by_role("cell").nth(2).inner_text())
    os.kill(pid, signal.SIGKILL)
    expect(row.get_by_role("cell").nth(4)).to_have_text("1")
    expect(row).to_contain_text("ready")
    assert int(process.inner_text()) != pid


def test_sequences(server, tab):
    def ask(**parameters):
        body = {
            "inputs": [{"name": "VALUE", "shape": [1, 1], "datatype": "INT32", "data": [1]}],
            "parameters": {"sequence_id": 4711, **parameters},
        }
        assert server.json("POST", "/v2/models/running_sum/infer", body)[0] == 200

    ask(sequence_start=True)
    ask()
    page = tab(server).open("models/running_sum/1/sequences")
    expect(page.get_by_role("rowheader", name="4711")).to_be_visible()
    ask(sequence_end=True)
    expect(page.get_by_role("rowheader", name="4711")).to_have_count(0)


def test_traces(server, tab):
    page = tab(server).open("models/digits_classifier/1/traces")
    page.get_by_role("button", name="Watch for 60 s").click()
    expect(page.get_by_role("status").filter(has_text="Watching")).to_be_visible()
    pixels = {"name": "PIXELS", "shape": [1, 64], "datatype": "FP32", "data": [0.5] * 64}
    _, metadata = server.json("GET", "/v2/models/digits_classifier")
    pixels["shape"] = [1, *metadata["inputs"][0]["shape"][1:]]
    pixels["data"] = [0.5] * int(np.prod(pixels["shape"]))
    assert server.json("POST", "/v2/models/digits_classifier/infer", {"id": "look-at-me", "inputs": [pixels]})[0] == 200
    expect(page.get_by_role("button", name="look-at-me")).to_be_visible()
    parts = page.locator(".waterfall tbody tr")
    expect(parts.filter(has_text="queue")).to_be_visible()
    expect(parts.filter(has_text="compute").first).to_be_visible()
    bar = parts.filter(has_text="queue").locator(".bar").bounding_box()
    assert bar["width"] >= 2
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Watch for 60 s")).to_be_visible()


# ---- requests --------------------------------------------------------------------------------------------------------


def test_try_numbers(server, tab):
    page = tab(server).open("models/add_sub/1/try")
    page.get_by_label("Data of INPUT0").fill("[1, 2,\n 3.5, -4e0]")
    page.get_by_label("Data of INPUT1").fill("10 20 30")
    send(page)
    expect(page.locator("fieldset").filter(has_text="INPUT1")).to_contain_text("the shape has 4 elements, the data 3")
    page.get_by_label("Data of INPUT1").fill("10 20 30 40")
    send(page)
    values = page.get_by_role("group", name="Values of OUTPUT0").get_by_role("cell")
    expect(values.nth(0)).to_have_text("11")
    assert [text for text in values.all_inner_texts() if text] == ["11", "22", "33.5", "36"]
    # The command does the same in a shell, at the port for clients.
    page.get_by_text("The same with curl").click()
    command = page.get_by_label("Command").inner_text()
    assert f"http://{server.http}/" in command
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20, check=True)
    assert json.loads(done.stdout)["outputs"][0]["data"] == [11, 22, 33.5, 36]


@pytest.mark.parametrize(
    ("model", "shape", "data", "shown"),
    [
        (
            "longs",
            "3",
            "9223372036854775807, -9223372036854775808, 7",
            ["9223372036854775807", "-9223372036854775808", "7"],
        ),
        ("halves", "3", "1.5, -65504, 0.000061", ["1.5", "-65504", "0.00006097555"]),
        ("truths", "2", "true 0", ["true", "false"]),
        ("shout", "2", "ab\nnaïve", ["AB", "NAÏVE"]),
    ],
)
def test_try_datatypes(server, tab, model, shape, data, shown):
    page = tab(server).open(f"models/{model}/1/try")
    page.get_by_label("shape").fill(shape)
    page.get_by_label("Data of").fill(data)
    send(page)
    values = page.get_by_role("group", name="Values of").first.get_by_role("cell")
    expect(values.first).to_have_text(shown[0])
    texts = [text for text in values.all_inner_texts() if text]
    if model == "halves":
        assert [float(text) for text in texts] == pytest.approx([float(text) for text in shown], rel=1e-6)
    else:
        assert texts == shown


def test_try_refuses_what_does_not_fit(server, tab):
    page = tab(server).open("models/longs/1/try")
    for data, text in [("1.5", 'an integer was expected, got "1.5"'), ("9223372036854775808", "does not fit INT64")]:
        page.get_by_label("Data of IN").fill(data)
        send(page)
        expect(page.locator("fieldset").filter(has_text="IN").first).to_contain_text(text)
    # Refusals are shown in the server's words.
    page.get_by_label("datatype").select_option("INT32")
    page.get_by_label("Data of IN").fill("5")
    send(page)
    expect(page.get_by_role("alert")).to_contain_text("INT32")


def test_try_a_file(server, tab, tmp_path):
    ink = np.array([[sign == "#" for sign in line] for line in TWO.split()])
    grey = np.pad(np.where(ink, 20, 230), 2, constant_values=230).repeat(3, 0).repeat(3, 1).astype(np.uint8)
    picture = tmp_path / "two.png"
    picture.write_bytes(png(np.stack([grey] * 3, axis=-1)))
    page = tab(server).open("models/digits/1/try")
    page.get_by_label("from a file").set_input_files(picture)
    expect(page.get_by_text("two.png", exact=True)).to_be_visible()  # it has been read
    send(page)
    expect(page.locator(".output").filter(has_text="DIGIT")).to_contain_text("2")
    page.get_by_text("The same with curl").click()
    command = page.get_by_label("Command").inner_text().replace("-o answer.bin ", "")
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True)
    assert json.loads(done.stdout)["outputs"][0]["data"] == ["2"]


def test_try_an_image_as_numbers(pipelines, tab, tmp_path):
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:, :, 0] = 255
    (tmp_path / "red.png").write_bytes(png(pixels))
    page = tab(pipelines).open("models/faces/1/try")
    page.get_by_label("from an image").set_input_files(tmp_path / "red.png")
    data = page.get_by_label("Data of image")
    wait_until(lambda: data.input_value().startswith("255,0,0,255,0,0"), 10, "the pixels")
    assert data.input_value().count(",") == 64 * 64 * 3 - 1
    page.get_by_label("values").select_option("0 … 1, blue first")
    wait_until(lambda: data.input_value().startswith("0,0,1,0,0,1"), 10, "the pixels, blue first")


def test_try_a_stream(server, tab):
    page = tab(server).open("models/repeat/1/try")
    page.get_by_label("Data of TEXT").fill("hello ")
    times = page.locator("fieldset.input").filter(has_text="TIMES")
    send_it = times.get_by_label("send it")
    if send_it.count():
        send_it.check()
    times.get_by_label("Data of TIMES").fill("4")
    send(page)
    expect(page.locator(".stream .token")).to_have_count(4)
    expect(page.locator(".stream")).to_have_text("hello hello hello hello ")
    expect(page.locator(".output").filter(has_text="INDEX")).to_contain_text("0  1  2  3")
    expect(page.get_by_role("region", name="Answer")).to_contain_text("4 answers in")


def test_texts_of_a_stream_are_told_apart(server, tab):
    page = tab(server).open("models/repeat/1/try")
    page.get_by_label("Data of TEXT").fill("word")
    times = page.locator("fieldset.input").filter(has_text="TIMES")
    times.get_by_label("send it").check()
    times.get_by_label("Data of TIMES").fill("3")
    send(page)
    stream = page.locator(".stream")
    expect(page.locator(".stream .token")).to_have_count(3)
    assert stream.inner_text().split("\n") == ["word"] * 3
    page.get_by_label("put together").check(force=True)
    expect(stream).to_have_text("wordwordword")


def test_try_a_sequence(server, tab):
    page = tab(server).open("models/running_sum/1/try")
    fields = page.locator("details").filter(has_text="Sequence and parameters")
    if fields.get_attribute("open") is None:
        fields.locator("summary").click()
    page.get_by_label("sequence id").fill("77")
    page.get_by_label("Data of VALUE").fill("5")
    send(page)
    answer = page.locator(".output").filter(has_text="SUM").locator(".answer")
    expect(answer).to_have_text("5")
    page.get_by_label("start", exact=True).uncheck()
    page.get_by_label("Data of VALUE").fill("6")
    send(page)
    expect(answer).to_have_text("11")


def test_chat(repository, serve, tab):
    cancelled = add_chat(repository)
    server = serve(repository)
    window = tab(server)
    page = window.open("models/chat/1/try")
    message, log = page.get_by_label("your message"), page.get_by_role("log")
    pace = page.locator(".pace")
    message.fill("hello you")
    page.keyboard.press("Enter")
    expect(log).to_contain_text("message 1 was: hello you")
    expect(pace).to_have_text(
        re.compile(r"^5 tokens in [\d.]+ (µs|ms|s), [\d.]+( k)?/s, the first after [\d.]+ (µs|ms|s)$")
    )
    # The conversation goes along.
    page.get_by_label("system text").fill("be brief")
    message.fill("and you")
    send(page)
    expect(log).to_contain_text("message 4 was: and you")
    page.get_by_label("most tokens").fill("two")
    message.fill("hello")
    send(page)
    expect(page.get_by_role("alert")).to_have_text('most tokens: a number was expected, got "two"')
    page.get_by_label("most tokens").fill("2")
    send(page)
    expect(pace).to_contain_text("2 tokens in")
    expect(page.locator(".message").last).not_to_contain_text("was")
    page.get_by_label("most tokens").fill("")
    assert window.violations() == []

    # An answer comes word by word, until it is stopped.
    message.fill("forever")
    send(page)
    expect(log).to_contain_text("tick tick")
    expect(log).to_have_attribute("aria-busy", "true")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("Stopped.")
    wait_until(cancelled.exists, 20, "the end of the model's answer")
    message.fill("fail")
    send(page)
    expect(page.get_by_role("alert")).to_have_text("out of words")
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.locator(".message")).to_have_count(0)
    # A refused message goes back to the form.
    message.fill("refuse")
    send(page)
    expect(page.get_by_role("alert")).to_contain_text("out of words")
    expect(message).to_have_value("refuse")
    expect(page.locator(".message")).to_have_count(0)

    page.get_by_label("tensors").check(force=True)
    expect(page.get_by_label("Data of messages")).to_have_count(0)  # it is optional
    expect(page.get_by_role("form", name="A request to chat")).to_be_visible()
    page.get_by_label("a chat").check(force=True)
    phone = tab(server, size=PHONE)
    phone.open("models/chat/1/try")
    expect(phone.page.get_by_label("your message")).to_be_visible()
    assert phone.overflow() <= 0


# ---- management ------------------------------------------------------------------------------------------------------


def test_unload_and_load(server, tab):
    page = tab(server).open("models/square/1")
    badge = page.locator("main .badge").first
    expect(badge).to_contain_text("ready")
    page.get_by_role("button", name="Unload").click()
    dialog = page.get_by_role("dialog", name="Unload square?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert state(server, "square") == "READY"
    page.get_by_role("button", name="Unload").click()
    dialog.get_by_role("button", name="Unload").click()
    expect(badge).to_contain_text("not loaded")
    assert server.request("GET", "/v2/models/square/ready")[0] != 200
    expect(page.get_by_role("button", name="Unload")).to_be_disabled()
    page.get_by_role("button", name="Load", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Load", exact=True).click()
    expect(badge).to_contain_text("ready")
    assert server.request("GET", "/v2/models/square/ready")[0] == 200


def test_reload_of_a_config(graphs, tab):
    page = tab(graphs).open("models/increment/1")
    page.get_by_role("button", name="Reload config.json").click()
    page.get_by_role("dialog").get_by_role("button", name="Read again").click()
    expect(page.get_by_role("status").filter(has_text="Done.")).to_be_visible()


def test_no_management_without_explicit_mode(repository, serve, tab):
    repository.add_identity("m")
    page = tab(serve(repository)).open("models/m/1")
    button = page.get_by_role("button", name="Unload")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(re.compile("--model-control-mode=explicit"))
    # A finger does not hover: it gets the hint when it touches the button.
    button.click(force=True)
    expect(page.get_by_role("status").filter(has_text="--model-control-mode=explicit")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_token(repository, serve, tab, tmp_path):
    (tmp_path / "tokens").write_text("operator o-token\n")
    (tmp_path / "tokens").chmod(0o600)
    policy = [
        {"identities": ["anonymous"], "apis": ["health"]},
        {"identities": ["operator"], "apis": ["*"]},
    ]
    (tmp_path / "policy.json").write_text(json.dumps({"rules": policy}))
    repository.add_identity("m")
    server = serve(repository, f"--token-file={tmp_path / 'tokens'}", f"--policy-file={tmp_path / 'policy.json'}")
    window = tab(server)
    page = window.page
    page.goto("/console/#/models")
    dialog = page.get_by_role("dialog", name="A token is needed")
    expect(dialog).to_be_visible()
    assert window.violations() == []
    dialog.get_by_label("Token").fill("o-token")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="m", exact=True)).to_be_visible()
    expect(dialog).to_have_count(0)
    phone = tab(server, size=PHONE).page
    phone.goto("/console/#/models")
    dialog = phone.get_by_role("dialog", name="A token is needed")
    dialog.get_by_role("button", name="Cancel").click()
    phone.get_by_role("button", name="Token", exact=True).click()
    expect(dialog).to_be_visible()


# ---- several servers -------------------------------------------------------------------------------------------------


def test_fleet(fleet, tab):
    replicas, server = fleet
    one, two = ("127.0.0.1:" + replicas.endpoint(name).split(":")[2] for name in ("one", "two"))
    page = tab(server).open()
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    table = page.get_by_role("region", name="Replicas")
    row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=one))
    with FrontClients(replicas.replicas["one"].http, replicas.replicas["one"].grpc) as clients:
        for sequence in (1, 2, 3):
            clients.step("grpc", sequence, 1, sequence_start=True)
        with repeatedly(lambda: clients.work("http")):
            rate = row.get_by_role("cell").nth(4)
            wait_until(lambda: re.match(r"[1-9]", rate.inner_text()), 25, "a rate of the replica")
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells[0].endswith("ready")
    assert re.fullmatch(r"\w+ [\d.]+", cells[1])
    assert re.fullmatch(r"\d+ (s|min \d+ s)", cells[2])
    assert cells[3] == "2 of 2"
    assert re.fullmatch(r"[\d.]+ (µs|ms)|0 µs", cells[6])
    assert cells[7:] == ["0", "3"]

    # A missing server is listed with the reason, and differences are listed, too.
    silent = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="127.0.0.1:1", exact=True))
    assert silent.get_by_role("cell").all_inner_texts()[0].endswith("no answer")
    look = page.get_by_role("region", name="Needs a look").get_by_role("listitem")
    expect(look).to_have_count(3)
    expect(look.first).to_contain_text("cannot connect to 127.0.0.1:1: Connection refused")
    expect(look.last).to_contain_text(re.compile("model work: version 1"))
    models = page.get_by_role("region", name="Models")
    work = models.get_by_role("row").filter(has=page.get_by_role("rowheader", name="work"))
    expect(work.get_by_role("cell").first).to_contain_text("differs")
    versions = work.get_by_role("listitem").all_inner_texts()
    assert sorted(versions)[0] == f"1 at {one}"
    assert re.fullmatch(rf"1 unavailable, 2 at {two}", sorted(versions)[1])
    asleep = models.get_by_role("row").filter(has=page.get_by_role("rowheader", name="asleep"))
    assert sorted(asleep.get_by_role("listitem").all_inner_texts()) == [f"missing at {one}", f"not loaded at {two}"]
    sums = models.get_by_role("row").filter(has=page.get_by_role("rowheader", name="sums"))
    assert sums.get_by_role("cell").all_inner_texts()[:4] == ["the same", "1", "2 of 3", "3"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_fleet_is_accessible(fleet, tab, scheme):
    _, server = fleet
    for size in (DESKTOP, PHONE):
        window = tab(server, scheme=scheme, size=size)
        page = window.open()
        page.keyboard.press("4")
        expect(page.get_by_role("region", name="Replicas").get_by_role("row")).to_have_count(4)
        assert window.violations() == []
        assert window.overflow() <= 0


def test_a_server_that_knows_of_no_others_shows_none(server, tab):
    page = tab(server).open()
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(3)
    page.keyboard.press("4")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.goto("/console/#/fleet")
    expect(page.locator("main")).to_contain_text("no other servers are configured")


# ---- input devices and surroundings ----------------------------------------------------------------------------------


def test_keyboard_alone(server, tab):
    page = tab(server).open()
    page.keyboard.press("2")
    expect(page.get_by_role("heading", level=1)).to_have_text("Models")
    page.keyboard.press("/")
    page.keyboard.type("digits")
    expect(page.locator("[data-row]")).to_have_count(4)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-row]").nth(1)).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("digits")
    page.keyboard.press("]")
    expect(page.locator(".tabs [aria-current=page]")).to_have_text("Structure")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    # The form works with the Tab key, from the text to the button.
    page.goto("/console/#/models/shout/1/try")
    page.get_by_label("Data of TEXT").focus()
    page.keyboard.type("typed")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "Send":
            break
    page.keyboard.press("Enter")
    expect(page.locator(".output").filter(has_text="SHOUTED")).to_contain_text("TYPED")


def test_lost_server(server, tab):
    window = tab(server)
    page = window.open("models")
    window.context.set_offline(True)
    expect(page.get_by_role("status").filter(has_text="has not answered since")).to_be_visible()
    expect(page.get_by_role("link", name="add_sub", exact=True)).to_be_visible()  # the known rows stay
    window.context.set_offline(False)
    expect(page.get_by_role("status").filter(has_text="has not answered since")).to_have_count(0)
    window.errors.clear()


def test_five_hundred_models(repository, serve, tab):
    """Five hundred ensembles over one model give rows that serve, without a process for each."""
    one = ([("IN", "FP32", [1])], [("OUT", "FP32", [1])])
    repository.add("part", config_text=config(None, *one))
    step = 'ensemble_scheduling { step [ { model_name: "part" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } ] }'
    for index in range(500):
        text = config(None, *one, backend=None, extra=f'platform: "ensemble"\n{step}')
        repository.add(f"many_{index:03d}", source=None, config_text=text)
    server = serve(repository)
    page = tab(server).open("models")
    expect(page.locator("[data-row]")).to_have_count(501)
    # Measures the time from a key to the filtered list, on the thread that also draws, and the refresh of all rows.
    begun = time.monotonic()
    page.get_by_label("Search the models").fill("many_31")
    expect(page.locator("[data-row]")).to_have_count(10)
    assert time.monotonic() - begun < 5
    page.get_by_label("Search the models").fill("")
    expect(page.locator("[data-row]")).to_have_count(501)
    longest = page.evaluate(
        """() => new Promise((resolve) => {
             let longest = 0, last = performance.now(), ends = last + 4500;
             const frame = (now) => {
               longest = Math.max(longest, now - last);
               last = now;
               now < ends ? requestAnimationFrame(frame) : resolve(longest);
             };
             requestAnimationFrame(frame);
           })"""
    )
    assert longest < 1000
