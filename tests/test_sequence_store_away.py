"""The store of sequences is away, from all replicas or from one: --sequence_state_store."""

import signal
import time

import pytest
from harness.redis import Redis
from harness.relay import Relay
from harness.sequence_settings import ConfigSetting, OwnStateSetting, RepositorySetting
from harness.sequence_store import counted, refusal, replica, send, value_of
from harness.waiting import wait_until


@pytest.fixture
def redis(tmp_path):
    with Redis(tmp_path) as server:
        yield server


@pytest.fixture(params=[ConfigSetting, RepositorySetting, OwnStateSetting], ids=["config", "repository", "own"])
def setting(request, tmp_path):
    return request.param(tmp_path)


# ---- the store is away -------------------------------------------------------------------------------


def test_without_the_store_steps_are_refused(setting, redis):
    with replica(setting, redis) as server:
        assert setting.ask(server, 5, 1, start=True) == 5
        redis.signal(signal.SIGSTOP)
        begun = time.monotonic()
        status, text = refusal(setting, server, 6, 1)
        assert time.monotonic() - begun < 8
        assert status == 503
        assert text.startswith("step 2 of sequence 1 of model 'sum' could not be kept, and whether it was is not known")
        redis.signal(signal.SIGCONT)
        server.wait_for_log("the store of sequences can be used again|the connection to the store")
        # The step may have been done: which it was, the store knows.
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
        assert "is not in the store of sequences any more (it was ended, has expired, or the store has lost it)" in text
        setting.assert_missing(server, 1)
        assert setting.ask(server, 7, 1, start=True) == 7


def test_without_the_store_steps_go_on_where_that_is_wanted(setting, redis):
    options = ["--sequence_state_store_unavailable", "continue", "--sequence_state_store_timeout_ms", 200]
    with replica(setting, redis, *options) as server, replica(setting, redis, *options) as other:
        assert setting.ask(server, 5, 1, start=True) == 5
        redis.signal(signal.SIGSTOP)
        assert setting.ask(server, 6, 1) == 11
        assert setting.ask(server, 7, 1) == 18
        assert setting.ask(server, 3, 2, start=True) == 3
        assert counted(server, "unconfirmed") == 2
        # What is not here cannot be known.
        assert refusal(setting, server, 1, 99)[0] == 503
        redis.signal(signal.SIGCONT)
        wait_until(lambda: counted(server, "unconfirmed") == 0, what="the store to have all")
        server.kill()
        wait_until(lambda: send(setting, other, 0, 50, start=True)[0] == 200, what="the store to be used again")
        assert setting.ask(other, 1, 1) == 19
        assert setting.ask(other, 1, 2) == 4


def test_behind_takes_a_step_back_that_it_could_not_keep(setting, redis):
    options = ["--sequence_state_store_lag_ms", 0, "--sequence_state_store_timeout_ms", 200]
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
    return setting.serve("--sequence_state_store", url, "--sequence_state_store_timeout_ms", 200, *options, **more)


def test_a_replica_that_is_cut_off_does_not_answer_from_an_old_state(setting, redis, relay):
    with cut_off(setting, relay) as one, replica(setting, redis) as two:
        assert setting.ask(one, 5, 1, start=True) == 5
        assert setting.ask(one, 5, 2, start=True) == 5
        relay.cut()
        assert setting.ask(two, 6, 1) == 11
        status, text = refusal(setting, one, 100, 1)
        assert (status, "whether it was is not known" in text) == (503, True)
        status, text = refusal(setting, one, 100, 2)
        assert status == 503
        relay.mend()
        # The write that was on its way comes late, and is refused: it has the epoch of before.
        wait_until(lambda: send(setting, one, 0, 3, start=True)[0] == 200, what="the store to be reached again")
        assert setting.ask(two, 7, 1) == 18
        assert setting.ask(one, 1, 1) == 19
        # Of the other one nobody knew; it was done, or not.
        assert setting.ask(one, 0, 2) in (5, 105)


def test_a_replica_that_goes_on_alone_is_told_when_another_has_gone_on(setting, redis, relay):
    options = ["--sequence_state_store_unavailable", "continue"]
    with cut_off(setting, relay, *options) as one, replica(setting, redis, *options) as two:
        assert setting.ask(one, 5, 1, start=True) == 5
        assert setting.ask(one, 5, 2, start=True) == 5
        relay.cut()
        assert setting.ask(one, 10, 1) == 15
        assert setting.ask(one, 10, 2) == 15
        assert setting.ask(two, 6, 1) == 11  # without what the other one has answered alone
        relay.mend()
        wait_until(lambda: counted(one, "unconfirmed") == 0, what="the store to have all")
        one.wait_for_log("steps that were answered are lost: sequence 1 of model 'sum' has gone on at another replica")
        assert setting.ask(one, 7, 1) == 18
        assert setting.ask(two, 7, 2) == 22
