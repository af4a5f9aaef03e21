"""Sequences continue at another replica through a shared store: --sequence_state_store."""

import concurrent.futures
import http.client
import random
import re
import signal
import subprocess
import threading
import time

import pytest
from harness.redis import Redis
from harness.relay import Relay
from harness.repository import Repository, config, per_request
from harness.sequence_settings import ConfigSetting, OwnStateSetting, RefusedError, RepositorySetting
from harness.server import BINARY, Server
from harness.waiting import wait_until

MODES = ["durable", "behind", "drain"]


@pytest.fixture
def redis(tmp_path):
    with Redis(tmp_path) as server:
        yield server


@pytest.fixture(params=[ConfigSetting, RepositorySetting, OwnStateSetting], ids=["config", "repository", "own"])
def setting(request, tmp_path):
    return request.param(tmp_path)


def replica(setting, redis, *options, mode="durable"):
    return setting.serve("--sequence_state_store", redis.url, "--sequence_state_store_mode", mode, *options)


def send(setting, server, value, sequence, step=None, start=False, end=False):
    """Returns (status, answer) of one step."""
    path, body = setting.request(value)
    body["parameters"] = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
    if step is not None:
        body["parameters"]["sequence_step"] = step
    return server.json("POST", path, body)


def value_of(answer):
    return next(each["data"][0] for each in answer["outputs"] if each["name"] == "y")


def refusal(setting, server, value, sequence, **flags):
    status, answer = send(setting, server, value, sequence, **flags)
    assert status != 200, answer
    return status, answer["error"]


def counted(server, what):
    """Returns the metric braid_sequence_store_{what}, of either endpoint."""
    address = server.metrics or server.http
    status, _, body = server.request("GET", "/metrics", address=address)
    assert status == 200
    lines = [line for line in body.decode().splitlines() if line.startswith(f"braid_sequence_store_{what}")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


# ---- a replica is lost -------------------------------------------------------------------------------


def test_a_sequence_goes_on_where_its_replica_was_killed(setting, redis):
    with replica(setting, redis) as first, replica(setting, redis) as second:
        for sequence in range(1, 9):
            assert setting.ask(first, sequence, sequence, start=True) == sequence
            assert setting.ask(first, 10, sequence) == sequence + 10
        first.kill()
        for sequence in range(1, 9):
            assert setting.ask(second, 100, sequence) == sequence + 110
            assert setting.ask(second, 1000, sequence, end=True) == sequence + 1110
            setting.assert_missing(second, sequence)
        assert counted(second, "taken_over") == 8
        assert counted(second, "written") == 16
        assert counted(second, "fenced") == 0
    assert redis.ask("DBSIZE") == 0


def test_a_sequence_wanders_between_replicas(setting, redis):
    with replica(setting, redis) as one, replica(setting, redis) as two, replica(setting, redis) as three:
        total = setting.ask(one, 1, 7, start=True)
        for step in range(2, 31):
            at = (one, two, three)[step % 3]
            status, answer = send(setting, at, step, 7, step=step)
            total += step
            assert (status, value_of(answer)) == (200, total)
            assert answer["parameters"]["sequence_step"] == step
        # Each replica still has it, and believes to be its owner; without the step's number it cannot detect the
        # repetition.
        assert refusal(setting, two, 0, 7)[0] == 409
        assert setting.ask(two, 0, 7, end=True) == total


@pytest.mark.parametrize("mode", MODES)
def test_what_a_kill_loses(setting, redis, mode):
    """The mode decides the loss after a kill: nothing, at most the lag, or the sequence."""
    options = ["--sequence_state_store_lag_ms", 200] if mode == "behind" else []
    with replica(setting, redis, *options, mode=mode) as first, replica(setting, redis, *options, mode=mode) as second:
        told, sums = 0, []
        for step in range(40):
            told = setting.ask(first, 1, 5, start=step == 0)
            sums.append((time.monotonic(), told))
        killed = time.monotonic()
        first.kill()
        if mode == "drain":
            setting.assert_missing(second, 5)
            return
        found = setting.ask(second, 0, 5)
        if mode == "durable":
            assert found == told == 40
        else:
            confirmed = max((value for at, value in sums if at < killed - 0.2), default=0)
            assert confirmed <= found <= told


@pytest.mark.parametrize("mode", MODES)
def test_a_planned_stop_loses_nothing(setting, redis, mode):
    with replica(setting, redis, mode=mode) as first, replica(setting, redis, mode=mode) as second:
        for sequence in (1, 2, 3):
            assert setting.ask(first, sequence, sequence, start=True) == sequence
        assert setting.ask(first, 1, 3, end=True) == 4
        first.stop()
        assert setting.ask(second, 10, 1) == 11
        assert setting.ask(second, 10, 2) == 12
        setting.assert_missing(second, 3)
        # In mode drain the store had the state only for the replica that took over.
        second.kill()
    if mode == "drain":
        with replica(setting, redis, mode=mode) as third:
            setting.assert_missing(third, 1)


@pytest.mark.parametrize("mode", ["durable", "behind"])
def test_each_step_is_done_once_though_replicas_are_killed(tmp_path, redis, mode):
    """Clients that number their steps get each step done once, although replicas are killed. In mode behind they learn
    which steps were lost, and repeat them."""
    setting = RepositorySetting(tmp_path)
    options = ["--sequence_state_store_lag_ms", 50] if mode == "behind" else []
    replicas = [replica(setting, redis, *options, mode=mode) for _ in range(3)]
    stopping, lost, moved = threading.Event(), [], []
    steps = 400

    def client(sequence):
        choices = random.Random(sequence)
        step, home, deadline = 1, choices.randrange(3), time.monotonic() + 90
        while step <= steps:
            assert time.monotonic() < deadline, f"sequence {sequence} stands at step {step}"
            try:
                status, answer = send(setting, replicas[home], step, sequence, step=step, start=step == 1)
            except (OSError, http.client.HTTPException):
                status, answer = 0, None
            if status == 200:
                assert value_of(answer) == step * (step + 1) // 2
                step += 1
            elif answer and (found := re.search(r"whose next step is (\d+)", answer["error"])):
                following = int(found[1])
                if following < step:
                    lost.append(step - following)
                assert following <= step + 1
                step = following
            else:
                if answer and "must specify the START" in answer["error"]:
                    lost.append(step)
                    step = 1
                moved.append(home)
                home = choices.randrange(3)
                time.sleep(0.02)

    def kill_one_after_the_other():
        killed = 0
        while not stopping.wait(0.3):
            replicas[killed % 3].kill()
            replicas[killed % 3] = replica(setting, redis, *options, mode=mode)
            killed += 1
        return killed

    try:
        with concurrent.futures.ThreadPoolExecutor(7) as pool:
            kills = pool.submit(kill_one_after_the_other)
            try:
                for each in [pool.submit(client, sequence) for sequence in range(1, 7)]:
                    each.result()
            finally:
                stopping.set()
            assert kills.result() >= 1
        assert moved
        if mode == "durable":
            assert not lost
    finally:
        for server in replicas:
            server.kill()


# ---- two owners --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["durable", "behind"])
def test_an_owner_that_was_taken_for_dead_is_fenced(setting, redis, mode):
    options = ["--sequence_state_store_lag_ms", 100] if mode == "behind" else []
    with replica(setting, redis, *options, mode=mode) as old, replica(setting, redis, *options, mode=mode) as new:
        assert setting.ask(old, 5, 9, start=True) == 5
        wait_until(lambda: counted(old, "unconfirmed") == 0, what="the store to have it")
        old.process.send_signal(signal.SIGSTOP)
        try:
            assert setting.ask(new, 10, 9) == 15
            time.sleep(0.2)  # longer than the lag
        finally:
            old.process.send_signal(signal.SIGCONT)
        status, text = refusal(setting, old, 100, 9)
        assert status == 409
        assert text == "sequence 9 of model 'sum' continued or restarted at another replica: this step was not done"
        assert counted(old, "fenced") == 1
        assert setting.ask(new, 1, 9) == 16
        # Its cached state is gone: it takes the sequence over like any replica.
        assert setting.ask(old, 1, 9) == 17
        time.sleep(0.2)  # within the lag the other one may not know it yet
        status, text = refusal(setting, new, 1, 9)
        assert "continued or restarted at another replica" in text


def test_two_replicas_race_for_a_sequence(setting, redis):
    """Each step is done once, or refused; the sum is that of the completed steps."""
    with replica(setting, redis) as one, replica(setting, redis) as two:
        setting.ask(one, 0, 4, start=True)
        done = []

        def client(server, value):
            for _ in range(60):
                status, answer = send(setting, server, value, 4)
                if status == 200:
                    done.append((value_of(answer), value))
                else:
                    assert "continued or restarted at another replica" in answer["error"], answer

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for each in [pool.submit(client, server, 10**i) for i, server in enumerate((one, two, one, two))]:
                each.result()
        total = 0
        for told, value in sorted(done):
            total += value
            assert told == total
        send(setting, one, 0, 4)  # takes it over, or learns that it has to
        assert setting.ask(one, 0, 4, end=True) == total


def test_a_start_takes_the_place_of_what_another_replica_has(setting, redis):
    with replica(setting, redis) as one, replica(setting, redis) as two:
        assert setting.ask(one, 5, 3, start=True) == 5
        assert setting.ask(two, 7, 3, start=True) == 7
        assert refusal(setting, one, 1, 3)[0] == 409
        assert setting.ask(two, 1, 3) == 8


def test_an_owner_whose_sequence_was_ended_elsewhere_is_told(setting, redis):
    with replica(setting, redis) as one, replica(setting, redis) as two:
        assert setting.ask(one, 5, 3, start=True) == 5
        assert setting.ask(two, 7, 3, end=True) == 12
        status, text = refusal(setting, one, 1, 3)
        assert status == 409
        assert "is no longer in the sequence store" in text
        setting.assert_missing(one, 3)


# ---- steps -------------------------------------------------------------------------------------------


def test_a_client_can_say_which_step_it_means(setting, redis):
    with replica(setting, redis) as first, replica(setting, redis) as second:
        status, answer = send(setting, first, 5, 2, step=1, start=True)
        assert (status, answer["parameters"]["sequence_step"]) == (200, 1)
        assert send(setting, first, 6, 2, step=2)[0] == 200
        for server in (first, second):
            status, text = refusal(setting, server, 6, 2, step=2)
            assert status == 400
            assert text == "this is step 2 of sequence 2 of model 'sum', whose next step is 3: it is already done"
        status, text = refusal(setting, second, 6, 2, step=5)
        assert text == "this is step 5 of sequence 2 of model 'sum', whose next step is 3"
        assert value_of(send(setting, second, 7, 2, step=3)[1]) == 18


def test_ids_that_servers_give_do_not_meet(tmp_path, redis):
    setting = ConfigSetting(tmp_path)
    with replica(setting, redis) as one, replica(setting, redis) as two:
        ids = set()
        for server in (one, two) * 3:
            path, body = setting.request(1)
            body["parameters"] = {"sequence_start": True}
            status, answer = server.json("POST", path, body)
            assert status == 200, answer
            ids.add(next(each["data"][0] for each in answer["outputs"] if each["name"] == "sequence_id"))
        assert len(ids) == 6


def test_texts_name_sequences_too(tmp_path, redis):
    setting = RepositorySetting(tmp_path)
    with replica(setting, redis) as one, replica(setting, redis) as two:
        for name in ("a", "a}b", "a b/ü"):
            assert setting.ask(one, 5, name, start=True) == 5
            assert setting.ask(two, 6, name) == 11


# ---- the store is unavailable ---------------------------------------------------------------------


def test_without_the_store_steps_are_refused(setting, redis):
    with replica(setting, redis) as server:
        assert setting.ask(server, 5, 1, start=True) == 5
        redis.signal(signal.SIGSTOP)
        begun = time.monotonic()
        status, text = refusal(setting, server, 6, 1)
        assert time.monotonic() - begun < 8
        assert status == 503
        assert text.startswith("step 2 of sequence 1 of model 'sum' may or may not be stored")
        redis.signal(signal.SIGCONT)
        server.wait_for_log("the sequence store is available again|the connection to the sequence store")
        # The step may have been done; the store knows.
        wait_until(lambda: send(setting, server, 0, 2, start=True)[0] == 200, what="the store to be used again")
        status, answer = send(setting, server, 0, 1)
        assert (status, value_of(answer), answer["parameters"]["sequence_step"]) in [(200, 5, 2), (200, 11, 3)]
        assert counted(server, "failed") >= 1


def test_a_store_that_has_lost_its_data_is_no_reason_to_guess(setting, redis):
    with replica(setting, redis) as server:
        assert setting.ask(server, 5, 1, start=True) == 5
        redis.kill()
        redis.start()
        wait_until(lambda: send(setting, server, 0, 2, start=True)[0] == 200, what="the store to be used again")
        status, text = refusal(setting, server, 6, 1)
        assert status == 409
        assert "is no longer in the sequence store (it ended, expired or was lost)" in text
        setting.assert_missing(server, 1)
        assert setting.ask(server, 7, 1, start=True) == 7


def test_without_the_store_steps_go_on_where_that_is_wanted(setting, redis):
    options = ["--sequence_state_store_unavailable", "continue"]
    with replica(setting, redis, *options) as server, replica(setting, redis, *options) as other:
        assert setting.ask(server, 5, 1, start=True) == 5
        redis.signal(signal.SIGSTOP)
        assert setting.ask(server, 6, 1) == 11
        assert setting.ask(server, 7, 1) == 18
        assert setting.ask(server, 3, 2, start=True) == 3
        assert counted(server, "unconfirmed") == 2
        # Without the store, a replica knows only its own sequences.
        assert refusal(setting, server, 1, 99)[0] == 503
        redis.signal(signal.SIGCONT)
        wait_until(lambda: counted(server, "unconfirmed") == 0, what="the store to have all")
        server.kill()
        wait_until(lambda: send(setting, other, 0, 50, start=True)[0] == 200, what="the store to be used again")
        assert setting.ask(other, 1, 1) == 19
        assert setting.ask(other, 1, 2) == 4


def test_behind_takes_a_step_back_that_it_could_not_keep(setting, redis):
    options = ["--sequence_state_store_lag_ms", 0]
    with replica(setting, redis, *options, mode="behind") as server:
        assert setting.ask(server, 5, 1, start=True) == 5
        wait_until(lambda: counted(server, "unconfirmed") == 0, what="the store to have it")
        redis.signal(signal.SIGSTOP)
        assert refusal(setting, server, 6, 1)[0] == 503
        redis.signal(signal.SIGCONT)
        wait_until(lambda: send(setting, server, 6, 1, step=2)[0] == 200, what="the step to be done")
        assert setting.ask(server, 0, 1) == 11


def test_sentinels_say_where_the_store_is(tmp_path, redis):
    setting = ConfigSetting(tmp_path)
    with Redis(tmp_path, master=redis) as second, Redis(tmp_path, watches=redis) as sentinel:
        url = f"redis+sentinel://localhost:1,localhost:{sentinel.port}/main/3"
        with (
            setting.serve("--sequence_state_store", url) as server,
            setting.serve("--sequence_state_store", url) as other,
        ):
            assert setting.ask(server, 5, 1, start=True) == 5
            [key] = redis.ask("KEYS", "*")
            wait_until(lambda: second.ask("HEXISTS", key, "d") == 1, what="the replica of the Redis to have its states")
            redis.kill()
            status, _ = send(setting, server, 0, 2, start=True)
            assert status == 503
            wait_until(lambda: send(setting, server, 0, 2, start=True)[0] == 200, 60, "the fail-over")
            wait_until(lambda: send(setting, other, 0, 3, start=True)[0] == 200, 60, "the other one's fail-over")
            assert setting.ask(other, 6, 1) == 11
            assert refusal(setting, server, 7, 1)[0] == 409
            assert setting.ask(server, 7, 1) == 18


# ---- one replica is cut off from the store -----------------------------------------------------------


@pytest.fixture
def relay(redis):
    with Relay(redis.port) as between:
        yield between


def cut_off(setting, relay, *options, **more):
    """A replica that reaches the store through the relay."""
    url = f"redis://localhost:{relay.port}/3"
    return setting.serve("--sequence_state_store", url, *options, **more)


def test_a_replica_that_is_cut_off_does_not_answer_from_an_old_state(setting, redis, relay):
    with cut_off(setting, relay) as one, replica(setting, redis) as two:
        assert setting.ask(one, 5, 1, start=True) == 5
        assert setting.ask(one, 5, 2, start=True) == 5
        relay.cut()
        assert setting.ask(two, 6, 1) == 11
        status, text = refusal(setting, one, 100, 1)
        assert (status, "may or may not be stored" in text) == (503, True)
        status, text = refusal(setting, one, 100, 2)
        assert status == 503
        relay.mend()
        # The delayed write arrives late, and is refused because its epoch is old.
        wait_until(lambda: send(setting, one, 0, 3, start=True)[0] == 200, what="the store to be reached again")
        assert setting.ask(two, 7, 1) == 18
        assert setting.ask(one, 1, 1) == 19
        # The other step may have been done: no answer said so.
        assert setting.ask(one, 0, 2) in (5, 105)


def test_a_replica_that_goes_on_alone_is_told_when_another_has_gone_on(setting, redis, relay):
    options = ["--sequence_state_store_unavailable", "continue"]
    with cut_off(setting, relay, *options) as one, replica(setting, redis, *options) as two:
        assert setting.ask(one, 5, 1, start=True) == 5
        assert setting.ask(one, 5, 2, start=True) == 5
        relay.cut()
        assert setting.ask(one, 10, 1) == 15
        assert setting.ask(one, 10, 2) == 15
        assert setting.ask(two, 6, 1) == 11  # without the steps that the other replica has answered alone
        relay.mend()
        wait_until(lambda: counted(one, "unconfirmed") == 0, what="the store to have all")
        one.wait_for_log(
            "steps that were already answered are lost: sequence 1 of model 'sum' continued or restarted at another replica"
        )
        assert setting.ask(one, 7, 1) == 18
        assert setting.ask(two, 7, 2) == 22


# ---- models ------------------------------------------------------------------------------------------


def test_a_sequence_of_another_model_is_refused(setting, redis):
    with replica(setting, redis) as server:
        setting.ask(server, 5, 1, start=True)
    setting.change_model()
    with replica(setting, redis) as server:
        status, text = refusal(setting, server, 6, 1)
        assert text == (
            "sequence 1 of model 'sum' belongs to a different model of that name and version (its files or states "
            "differ); restart it"
        )
        assert setting.ask(server, 6, 1, start=True) == 6


@pytest.mark.parametrize("mode", MODES)
def test_no_request_is_lost_or_counted_twice_by_reloads(setting, redis, mode):
    def client(server, sequence, count):
        total = 0
        for i in range(count):
            total += i + sequence
            assert setting.ask(server, i + sequence, sequence, start=i == 0) == total
        return total

    with replica(setting, redis, mode=mode) as server:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(client, server, sequence, 100) for sequence in range(1, 5)]
            for _ in range(3):
                setting.reload(server)
            totals = [each.result() for each in clients]
        for sequence, total in enumerate(totals, 1):
            assert setting.ask(server, 0, sequence, end=True) == total


def test_what_a_model_keeps_to_itself_stays_with_its_server(tmp_path, redis):
    repository = Repository(tmp_path / "models")
    source = per_request("""
        start = request.flags() & 1
        self.total = (0 if start else self.total) + get(request, "x")
        return respond(y=self.total)
    """)
    batching = "sequence_batching { max_sequence_idle_microseconds: 600000000 }"
    repository.add("own", source, config(None, [("x", "INT32", [1])], [("y", "INT32", [1])], 0, extra=batching))

    def ask(server, value, **flags):
        tensor = {"name": "x", "shape": [1], "datatype": "INT32", "data": [value]}
        body = {"parameters": {"sequence_id": 7, **flags}, "inputs": [tensor]}
        return server.json("POST", "/v2/models/own/infer", body)

    with Server([repository.path], "--sequence_state_store", redis.url, workdir=tmp_path) as server:
        assert server.log.count("'own' version 1: its sequences cannot be saved: the model keeps") == 1
        assert value_of(ask(server, 5, sequence_start=True)[1]) == 5
        status, answer = ask(server, 6)
        assert (status, value_of(answer), "parameters" in answer) == (200, 11, False)
        assert redis.ask("DBSIZE") == 0
        assert not [series for series in server.metric_values() if series.startswith("braid_sequence_store_")]


@pytest.fixture(params=[RepositorySetting, OwnStateSetting], ids=["repository", "own"])
def python_setting(request, tmp_path):
    return request.param(tmp_path)


def test_a_slot_that_was_idle_for_too_long_costs_no_sequence(python_setting, redis):
    setting = python_setting
    setting.write_with(setting.source, 8, "max_sequence_idle_microseconds: 50000")
    with replica(setting, redis) as server:
        assert setting.ask(server, 5, 1, start=True) == 5
        expired = 'braid_sequences_expired{model="sum",version="1"}'
        wait_until(lambda: server.metric_values()[expired] == 1, what="the slot to be free")
        assert setting.ask(server, 6, 1) == 11


def test_an_instance_that_dies_costs_no_sequence(python_setting, redis):
    setting = python_setting
    setting.source = setting.source.replace(
        "total =", "if get(request, 'x')[0, 0] == -7: os._exit(3)\n        total =", 1
    )
    setting.write(setting.source)
    with replica(setting, redis) as server:
        assert setting.ask(server, 5, 1, start=True) == 5
        with pytest.raises(RefusedError):
            setting.ask(server, -7, 1)
        assert setting.ask(server, 6, 1) == 11


def test_a_step_that_a_model_cannot_save_is_not_done(tmp_path, redis):
    setting = OwnStateSetting(tmp_path)
    with replica(setting, redis) as one, replica(setting, redis) as two:
        assert setting.ask(one, 5, "seven", start=True) == 5
        status, text = refusal(setting, one, -1318, "seven")
        assert status == 500
        assert text.startswith(
            "SequenceError: save_sequence of model 'sum' failed for sequence seven: ValueError: unlucky\n\nAt:\n  sum/1/model.py("
        )
        # The model has changed its state; the next step begins from the saved one.
        assert setting.ask(one, 1, "seven") == 6
        assert refusal(setting, one, -1319, "seven")[0] == 500
        assert setting.ask(two, 10, "seven") == 16
        assert redis.ask("DBSIZE") == 1


def test_states_of_megabytes_that_a_model_gives(tmp_path, redis):
    setting = OwnStateSetting(tmp_path)
    source = setting.source.replace(".tobytes()", ".tobytes() + bytes(3_000_000)")
    setting.write(source.replace("frombuffer(state,", "frombuffer(state[:-3_000_000],"))
    with replica(setting, redis) as one, replica(setting, redis) as two:
        total = setting.ask(one, 5, 7, start=True)
        for step in range(1, 9):
            total += step
            server = (one, two)[step % 2]
            status, answer = send(setting, server, step, 7, step=step + 1)
            assert (status, value_of(answer)) == (200, total)
        [key] = redis.ask("KEYS", "*")
        assert redis.ask("MEMORY", "USAGE", key) > 3_000_000


def test_a_sequence_that_a_model_does_not_take_stays_in_the_store(tmp_path, redis):
    setting = OwnStateSetting(tmp_path)
    with replica(setting, redis) as one, replica(setting, redis) as two:
        assert setting.ask(one, -666666, 7, start=True) == -666666
        assert setting.ask(one, 5, 8, start=True) == 5
        for server in (two, one):
            status, text = refusal(setting, server, 1, 7)
            if status == 409:  # the owner first learns that it lost the sequence
                status, text = refusal(setting, server, 1, 7)
            assert status == 500
            assert "load_sequence of model 'sum' failed for sequence 7: ValueError: not that one" in text
        assert setting.ask(two, 6, 8) == 11
        assert setting.ask(two, 1, 7, start=True, end=True) == 1


@pytest.mark.parametrize(
    ("change", "extra", "text"),
    [
        (("def load_sequence", "def load"), "", "the model defines save_sequence and not load_sequence"),
        (None, "model_transaction_policy { decoupled: true }", "a decoupled model cannot have save_sequence"),
    ],
    ids=["one alone", "decoupled"],
)
def test_what_cannot_be_kept_is_not_loaded(tmp_path, redis, change, extra, text):
    setting = OwnStateSetting(tmp_path)
    source = setting.source.replace(*change) if change else setting.source
    setting.write_with(source, 8, "max_sequence_idle_microseconds: 600000000", extra)
    options = [setting.repository.path, "--model-control-mode=explicit"]
    for store, status in ((["--sequence_state_store", redis.url], 400), ([], 200)):
        with Server(options[:1], *options[1:], *store, workdir=tmp_path) as server:
            told = server.json("POST", "/v2/repository/models/sum/load", {})
            assert told[0] == status
            assert status == 200 or text in told[1]["error"]


def test_a_sequence_that_nobody_uses_leaves_the_store(setting, redis):
    with replica(setting, redis, "--sequence_state_store_ttl_seconds", 1) as server:
        assert setting.ask(server, 5, 1, start=True) == 5
        wait_until(lambda: redis.ask("DBSIZE") == 0, what="the store to forget it")
        assert refusal(setting, server, 6, 1)[0] == 409


# ---- access to the store ---------------------------------------------------------------------------


def test_a_password(tmp_path):
    setting = ConfigSetting(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    with Redis(tmp_path, password="open sesame") as redis:
        with replica(setting, redis, "--sequence_state_store_password_file", secret) as server:
            server.wait_for_log("the sequence store is unavailable: it refuses AUTH: WRONGPASS")
            status, text = refusal(setting, server, 5, 1, start=True)
            assert status == 503
            assert "it refuses AUTH" in text
            # The file is read for each connection.
            secret.write_text("open sesame\n")
            wait_until(lambda: send(setting, server, 5, 1, start=True)[0] == 200, what="the store to be used")
            assert setting.ask(server, 6, 1) == 11
            assert "open sesame" not in server.log
        with replica(setting, redis) as server:
            server.wait_for_log("the sequence store is unavailable: it refuses SELECT: NOAUTH")


def test_tls(tmp_path):
    setting = ConfigSetting(tmp_path)
    folder = tmp_path / "certificates"
    folder.mkdir()
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", folder], check=True)
    with Redis(tmp_path, certificates=folder) as redis:
        with replica(setting, redis, "--sequence_state_store_ca_file", folder / "root.pem") as server:
            assert setting.ask(server, 5, 1, start=True) == 5
            assert setting.ask(server, 6, 1) == 11
        with replica(setting, redis) as server:
            server.wait_for_log("the sequence store is unavailable: TLS: .*certificate")
            assert refusal(setting, server, 5, 1, start=True)[0] == 503


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--sequence_state_store", "redis://:open-sesame@host/0"], "the URL must not have a password"),
        (["--sequence_state_store", "redis+sentinel://host"], "the master's name is missing"),
        (["--sequence_state_store", "memcached://host"], "unknown scheme"),
        (["--sequence_state_store_mode", "behind"], "--sequence_state_store_mode needs --sequence_state_store"),
        (["--sequence_state_store", "redis://h", "--sequence_state_path", "s"], "cannot be set together"),
        (["--sequence_state_store", "redis://h", "--sequence_state_store_lag_ms", "5"], "needs --sequence_state_store_mode=behind"),
        (["--sequence-state-store", "redis://h", "--sequence-state-store-ca-file", "f"], "need TLS"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(options, text):
    run = subprocess.run([BINARY, "serve", "models", *options], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode != 0
    assert text in run.stderr
    assert "open-sesame" not in run.stderr
