"""`braid fleet reload`: reloads a model on one server after the other, and rolls back on failure."""

import contextlib
import textwrap
import threading

import numpy as np
import pytest
from harness.fleets import Fleet, FrontClients, run_fleet
from harness.repository import config, per_request
from harness.waiting import wait_until

ANSWER = "return respond(OUT=np.array([{value}], np.int32))"
BROKEN = 'raise RuntimeError("broken")'
CONFIG = config("m", [("IN", "INT32", [1])], [("OUT", "INT32", [1])])


@pytest.fixture
def fleet(tmp_path):
    with Fleet(tmp_path, (), "--model-control-mode=explicit", "--load-model=*") as made:
        for name in ("one", "two", "three"):
            folder = tmp_path / name / "models"
            write(folder, 1, ANSWER.format(value=1))
            (folder / "m" / "config.pbtxt").write_text(CONFIG)
            made.add(name)
        yield made


def write(models, version, body):
    (models / "m" / str(version)).mkdir(parents=True, exist_ok=True)
    (models / "m" / str(version) / "model.py").write_text(textwrap.dedent(per_request(body)))


def answers(fleet):
    """Returns each replica's answer."""
    found = []
    for server in fleet.replicas.values():
        with FrontClients(server.http, server.grpc) as clients:
            result = clients.of["http"].infer("m", {"IN": np.zeros(1, np.int32)})
            found.append(int(result.as_numpy("OUT")[0]))
    return found


def reload(fleet, *options, check=True):
    return run_fleet(
        "reload", "--endpoints", fleet.endpoints(), "--model", "m", "--watch-seconds=0.5", *options, check=check
    )


def names(fleet):
    return ["127.0.0.1:" + fleet.endpoint(name).split(":")[2] for name in fleet.replicas]


@contextlib.contextmanager
def load(fleet):
    """Sends requests to each replica continuously; yields the errors."""
    errors, ended = [], threading.Event()

    def ask(server):
        with FrontClients(server.http, server.grpc) as clients:
            while not ended.is_set():
                try:
                    clients.of["grpc"].infer("m", {"IN": np.zeros(1, np.int32)})
                except Exception as error:
                    errors.append(str(error))

    threads = [threading.Thread(target=ask, args=(server,)) for server in fleet.replicas.values()]
    for thread in threads:
        thread.start()
    try:
        yield errors
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)


def test_one_after_the_other_without_a_failed_request(fleet):
    for name in fleet.replicas:
        write(fleet.folder(name) / "models", 2, ANSWER.format(value=2))
    with load(fleet) as errors:
        said = reload(fleet).stdout.splitlines()
    assert not errors
    assert answers(fleet) == [2, 2, 2]
    assert [line.split(": ")[0] for line in said] == [name for name in names(fleet) for _ in range(2)]
    assert said[0].endswith(": loaded m: version 2, was 1")
    assert said[1].endswith(" requests since the load, 0 failed")


def test_a_load_that_fails_stops_it(fleet):
    write(fleet.folder("one") / "models", 2, ANSWER.format(value=2))
    (fleet.folder("two") / "models" / "m" / "2").mkdir()
    (fleet.folder("two") / "models" / "m" / "2" / "model.py").write_text("import nothing_of_that_name\n")
    write(fleet.folder("three") / "models", 2, ANSWER.format(value=2))
    done = reload(fleet, check=False)
    assert done.returncode == 1
    assert "model m was not reloaded: the load failed: " in done.stderr
    # The second replica is unchanged, the first one is rolled back, and the third one was never asked.
    assert answers(fleet) == [1, 1, 1]
    first, second, third = names(fleet)
    assert f"{first}: went back to version 1" in done.stdout
    assert f"{second}: the load failed" in done.stdout
    assert third not in done.stdout


def test_errors_take_a_new_version_back(fleet):
    write(fleet.folder("one") / "models", 2, ANSWER.format(value=2))
    write(fleet.folder("two") / "models", 2, BROKEN)
    write(fleet.folder("three") / "models", 2, ANSWER.format(value=2))
    with load(fleet) as errors:
        done = reload(fleet, check=False)
    assert done.returncode == 1
    assert "requests have failed since the load; before, 0 of " in done.stderr
    assert answers(fleet) == [1, 1, 1]
    assert done.stdout.count("went back to version 1") == 2
    assert all("broken" in error for error in errors)


def test_a_configuration_is_taken_back(fleet):
    for name in fleet.replicas:
        bad = CONFIG + 'parameters { key: "bad" value { string_value: "yes" } }\n'
        (fleet.folder(name) / "models" / "m" / "config.pbtxt").write_text(bad)
        body = f'if "bad" in self.args["model_config"]:\n    {BROKEN}\n' + ANSWER.format(value=1)
        write(fleet.folder(name) / "models", 1, body)
    with load(fleet):
        done = reload(fleet, check=False)
    assert done.returncode == 1
    assert answers(fleet) == [1, 1, 1]
    first = names(fleet)[0]
    assert f"{first}: its previous configuration is restored" in done.stdout
    assert fleet.replicas["one"].json("GET", "/v2/models/m/config")[1]["parameters"] == {}


def test_files_that_were_replaced_cannot_be_taken_back(fleet):
    write(fleet.folder("one") / "models", 1, BROKEN)
    with load(fleet):
        done = reload(fleet, check=False)
    assert done.returncode == 1
    assert f"{names(fleet)[0]}: cannot go back: version 1 and its configuration are unchanged" in done.stdout
    assert "put the old files back and reload" in done.stdout
    write(fleet.folder("one") / "models", 1, ANSWER.format(value=1))
    reload(fleet)
    assert answers(fleet) == [1, 1, 1]


def test_nothing_is_begun_unless_all_serve(fleet):
    fleet.replicas["three"].json("POST", "/v2/repository/models/m/unload", {})
    wait_until(lambda: fleet.replicas["three"].request("GET", "/v2/models/m/ready")[0] != 200)
    for name in fleet.replicas:
        write(fleet.folder(name) / "models", 2, ANSWER.format(value=2))
    done = reload(fleet, check=False)
    assert done.returncode == 1
    assert f"{names(fleet)[2]} does not serve model m" in done.stderr
    assert not done.stdout
    assert fleet.replicas["one"].json("GET", "/v2/models/m")[1]["versions"] == ["1"]


def test_a_server_that_takes_no_loads_says_so(tmp_path):
    with Fleet(tmp_path, ("one",)) as fleet:
        done = run_fleet("reload", "--endpoints", fleet.endpoints(), "--model=work", check=False)
        assert done.returncode == 1
        assert "explicit model load / unload is not allowed if polling is enabled" in done.stderr


def test_a_load_that_ends_after_its_time_is_taken_back(fleet, tmp_path):
    for name in fleet.replicas:
        folder = tmp_path / name / "models"
        write(folder, 2, ANSWER.format(value=2))
        file = folder / "m" / "2" / "model.py"
        file.write_text("import time\n\ntime.sleep(2)\n" + file.read_text())
    done = reload(fleet, "--load-seconds=3", check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert answers(fleet) == [1, 1, 1]
    assert "the load failed" in done.stdout + done.stderr
    assert "went back to version 1" in done.stdout + done.stderr
