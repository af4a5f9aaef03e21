"""With a folder for them, sequences survive a restart and a reload: --sequence_state_path."""

import concurrent.futures
import json
import pathlib
import stat
import subprocess

import pytest
from harness.sequence_settings import ConfigSetting, OwnStateSetting, RepositorySetting
from harness.server import BINARY
from harness.waiting import wait_until


class TwoSlotsSetting(RepositorySetting):
    """Two sequences at a time."""

    def __init__(self, folder, strategy):
        self.strategy = strategy
        super().__init__(folder)

    def write(self, source):
        idle_us = 600_000_000 + next(self.counts)
        self.write_with(source, 2, f"max_sequence_idle_microseconds: {idle_us} {self.strategy}")

    def wait_for_pending(self, server, count):
        series = 'nv_inference_pending_request_count{model="sum",version="1"}'
        wait_until(lambda: server.metric_values().get(series) == count, what=f"{count} requests to wait")


class TwoOwnSlotsSetting(TwoSlotsSetting):
    source, state = OwnStateSetting.source, OwnStateSetting.state


@pytest.fixture(params=[TwoSlotsSetting, TwoOwnSlotsSetting], ids=["implicit", "own"])
def two_slots_setting(request):
    return request.param


@pytest.fixture(params=["direct { }", "oldest { max_candidate_sequences: 2 }"], ids=["direct", "oldest"])
def two_slots(request, two_slots_setting, tmp_path):
    return two_slots_setting(tmp_path, request.param)


@pytest.fixture(params=[ConfigSetting, RepositorySetting, OwnStateSetting], ids=["config", "repository", "own"])
def setting(request, tmp_path):
    return request.param(tmp_path)


# ---- restart ----


def test_sequences_outlast_a_restart(setting):
    with setting.serve_keeping() as server:
        assert setting.ask(server, 5, 1, start=True) == 5
        assert setting.ask(server, 6, 1) == 11
        assert setting.ask(server, 7, 2, start=True) == 7
        assert setting.ask(server, 8, 3, start=True) == 8
        assert setting.ask(server, 9, 3, end=True) == 17
    assert "'sum' version 1: 2 sequences saved" in server.log
    assert stat.S_IMODE(setting.states.stat().st_mode) == 0o700
    assert stat.S_IMODE(setting.file().stat().st_mode) == 0o600
    assert [each.name for each in setting.states.iterdir()] == [setting.file().name]

    with setting.serve_keeping() as server:
        assert "'sum' version 1: 2 sequences restored, as of " in server.log
        assert setting.ask(server, 100, 1) == 111
        assert setting.ask(server, 100, 2, end=True) == 107
        setting.assert_missing(server, 3)
        assert setting.ask(server, 1000, 1, end=True) == 1111
    # Without sequences there is no file.
    assert list(setting.states.iterdir()) == []


def test_a_request_that_never_ends_keeps_no_other_from_being_saved(tmp_path):
    setting = RepositorySetting(tmp_path)
    with setting.serve_keeping("--exit-timeout-secs", 2) as server:
        setting.ask(server, 5, 1, start=True)
        setting.ask(server, 7, 2, start=True)
        stuck = server.connection()
        path, body = setting.request(-1)
        body["parameters"] = {"sequence_id": 2}
        stuck.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        wait_until((setting.repository.path / "sum" / "STARTED").exists, what="the request to run")
        server.stop()
        stuck.close()
    with setting.serve_keeping() as server:
        assert setting.ask(server, 6, 1) == 11
        assert setting.ask(server, 8, 2) == 15


def test_a_killed_server_leaves_the_last_save(setting):
    with setting.serve_keeping("--sequence_state_interval_seconds", 0) as server:
        setting.ask(server, 5, 1, start=True)
    with setting.serve_keeping("--sequence_state_interval_seconds", 0) as server:
        assert setting.ask(server, 6, 1) == 11
        server.kill()
    with setting.serve_keeping() as server:
        assert setting.ask(server, 10, 1) == 15


def test_sequences_are_saved_at_intervals(setting):
    with setting.serve_keeping("--sequence_state_interval_seconds", 1) as server:
        setting.ask(server, 5, 1, start=True)
        wait_until(setting.file().exists, what="the file of sequences")
        server.kill()
    with setting.serve_keeping() as server:
        assert setting.ask(server, 6, 1) == 11


def test_a_changed_model_drops_sequences(setting):
    with setting.serve_keeping() as server:
        setting.ask(server, 5, 1, start=True)
    setting.change_model()
    with setting.serve_keeping() as server:
        server.wait_for_log("'sum' version 1: 1 sequence dropped: they were saved by another model")
        setting.assert_missing(server, 1)
    assert setting.file(".other-model").exists()
    assert not setting.file().exists()


@pytest.mark.parametrize("what", ["damaged", "other-format"])
def test_a_file_that_cannot_be_read_is_set_aside(setting, what):
    with setting.serve_keeping() as server:
        setting.ask(server, 5, 1, start=True)
    image = bytearray(setting.file().read_bytes())
    if what == "damaged":
        image[-20] ^= 1
    else:
        image[8:12] = (2).to_bytes(4, "little")
    setting.file().write_bytes(image)
    with setting.serve_keeping() as server:
        reason = {
            "damaged": "it is damaged: its checksum does not match",
            "other-format": "it has format 2, but this server reads format 1",
        }[what]
        assert f"sum' version 1: its sequences cannot be restored from {setting.file()}: {reason}" in server.log
        setting.assert_missing(server, 1)
        setting.ask(server, 6, 1, start=True)
    assert setting.file("." + what).read_bytes() == image
    with setting.serve_keeping() as server:
        assert setting.ask(server, 7, 1) == 13


# ---- reload ----


def test_sequences_outlast_a_reload_with_other_settings(setting):
    with setting.serve_keeping() as server:
        setting.ask(server, 5, 1, start=True)
        setting.reload(server)
        assert setting.ask(server, 6, 1) == 11
        # The held request is answered once the sequence is restored, perhaps before the server logs it.
        server.wait_for_log("'sum' version 1: 1 sequence carried over from the previous version")
        setting.reload(server)
        assert setting.ask(server, 7, 1, end=True) == 18


def test_no_request_is_lost_or_counted_twice_by_reloads(setting):
    def client(server, sequence, count):
        total = 0
        for i in range(count):
            total += i + sequence
            assert setting.ask(server, i + sequence, sequence, start=i == 0) == total
        return total

    with setting.serve_keeping() as server:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            clients = [pool.submit(client, server, sequence, 200) for sequence in range(1, 7)]
            for _ in range(4):
                setting.reload(server)
            totals = [each.result() for each in clients]
        for sequence, total in enumerate(totals, 1):
            assert setting.ask(server, 0, sequence, end=True) == total


def test_at_a_reload_no_request_waits_for_one_that_is_held(two_slots):
    setting = two_slots
    with setting.serve_keeping() as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert setting.ask(server, 5, 1, start=True) == 5
        assert setting.ask(server, 7, 2, start=True) == 7
        runs = pool.submit(setting.ask, server, -1, 1)
        wait_until((setting.repository.path / "sum" / "STARTED").exists, what="the request to run")
        wait = [pool.submit(setting.ask, server, 10 * sequence, sequence, start=True) for sequence in (3, 4)]
        setting.wait_for_pending(server, 2)
        setting.reload(server)
        held = pool.submit(setting.ask, server, 1, 2)
        setting.wait_for_pending(server, 1)
        (setting.repository.path / "sum" / "GO").touch()
        assert runs.result() == 4
        assert [each.result() for each in wait] == [30, 40]
        assert held.result() == 8
        server.wait_for_log("'sum' version 1: 4 sequences carried over from the previous version")
        for sequence, total in ((1, 4), (2, 8), (3, 30), (4, 40)):
            assert setting.ask(server, 100, sequence, end=True) == 100 + total


def test_a_reload_of_another_model_drops_sequences(setting):
    with setting.serve_keeping() as server:
        setting.ask(server, 5, 1, start=True)
        setting.change_model()
        setting.reload(server)
        setting.assert_missing(server, 1)
        server.wait_for_log("1 sequence dropped: the new version is a different model")


def test_an_unloaded_model_finds_its_sequences_again(tmp_path):
    setting = RepositorySetting(tmp_path)
    with setting.serve_keeping() as server:
        setting.ask(server, 5, 1, start=True)
        setting.unload(server)
        wait_until(setting.file().exists, what="the file of sequences")
        setting.load(server)
        assert setting.ask(server, 6, 1) == 11


# ---- without the option, and with a wrong one ----


def test_without_a_folder_nothing_is_kept(setting):
    def files():
        return {each for each in setting.folder.rglob("*") if "tmp-" not in str(each)}

    with setting.serve() as server:
        before = files()
        setting.ask(server, 5, 1, start=True)
        setting.reload(server)
        setting.assert_missing(server, 1)
        setting.ask(server, 6, 1, start=True)
    assert files() == before
    assert "sequence" not in server.log


@pytest.mark.parametrize("leave", ["reload", "unload"])
def test_a_version_that_leaves_runs_what_waits_for_slots(two_slots, leave):
    setting = two_slots
    with setting.serve() as server, concurrent.futures.ThreadPoolExecutor(2) as pool:
        setting.ask(server, 5, 1, start=True)
        setting.ask(server, 7, 2, start=True)
        wait = [pool.submit(setting.ask, server, 10 * sequence, sequence, start=True) for sequence in (3, 4)]
        setting.wait_for_pending(server, 2)
        getattr(setting, leave)(server)
        assert [each.result() for each in wait] == [30, 40]
        if leave == "reload":
            setting.assert_missing(server, 3)


def serve_and_fail(*options):
    command = [BINARY, "serve", "--host", "127.0.0.1", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (tmp_path / "file").write_text("")
    for path, reason in (
        (tmp_path / "file", "is not a folder"),
        (tmp_path / "no" / "folder", "cannot be created: No such file or directory"),
        (pathlib.Path("/proc/self"), "cannot be written"),
    ):
        status, text = serve_and_fail(models, "--sequence_state_path", path)
        assert status == 1
        assert f"error: the folder for sequence states '{path}' {reason}" in text
    status, text = serve_and_fail(models, "--sequence_state_path=")
    assert status == 1
    assert "--sequence_state_path must not be empty" in text
    status, text = serve_and_fail(models, "--sequence_state_interval_seconds=5")
    assert status == 1
    assert "--sequence_state_interval_seconds needs --sequence_state_path" in text


def test_a_folder_belongs_to_one_server(tmp_path):
    setting = ConfigSetting(tmp_path)
    models = tmp_path / "empty"
    models.mkdir()
    with setting.serve_keeping():
        status, text = serve_and_fail(models, "--sequence_state_path", setting.states)
        assert status == 1
        assert f"'{setting.states}' is used by another server" in text


def test_both_spellings_are_options(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for names in (
        ("sequence_state_path", "sequence_state_interval_seconds"),
        (
            "sequence-state-path",
            "sequence-state-interval-seconds",
        ),
    ):
        command = [BINARY, "serve", models, "--print-config", f"--{names[0]}=here", f"--{names[1]}", "7"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "here" in done.stdout, json.dumps(done.stdout)
