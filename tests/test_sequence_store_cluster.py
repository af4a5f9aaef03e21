"""Sequences in a Redis Cluster: --sequence_state_store redis+cluster://..."""

import concurrent.futures
import subprocess
import threading
import time

import pytest
from harness.redis import Redis, RedisCluster
from harness.sequence_settings import ConfigSetting, RefusedError, RepositorySetting
from harness.server import BINARY
from harness.waiting import wait_until

SEQUENCES = range(1, 25)


@pytest.fixture
def setting(tmp_path):
    return ConfigSetting(tmp_path)


@pytest.fixture
def cluster(tmp_path):
    with RedisCluster(tmp_path) as nodes:
        yield nodes


def replica(setting, cluster, *options, mode="durable"):
    return setting.serve("--sequence_state_store", cluster.url, "--sequence_state_store_mode", mode, *options)


def key(sequence):
    return f"braid:{{sum:1:n:{sequence}}}"


def owners(cluster):
    """Returns {sequence: the node that has it}."""
    return {sequence: cluster.owner(key(sequence))[0] for sequence in SEQUENCES}


def ask_until_done(setting, server, value, sequence, **flags):
    def done():
        try:
            return [setting.ask(server, value, sequence, **flags)]
        except RefusedError:
            return None

    return wait_until(done, 60, "the store to be used again")


@pytest.mark.parametrize("mode", ["durable", "behind"])
def test_sequences_on_all_nodes_go_on_where_their_server_was_killed(tmp_path, cluster, mode):
    setting = RepositorySetting(tmp_path)
    # With room for all of them at once.
    setting.write_with(setting.source, len(SEQUENCES), "max_sequence_idle_microseconds: 600000000")
    with replica(setting, cluster, mode=mode) as first, replica(setting, cluster, mode=mode) as second:
        for sequence in SEQUENCES:
            assert setting.ask(first, sequence, sequence, start=True) == sequence
            assert setting.ask(first, 10, sequence) == sequence + 10
        metric = 'braid_sequence_store_unconfirmed{model="sum",version="1"}'
        wait_until(lambda: first.metric_values()[metric] == 0, what="the store to have all")
        first.kill()
        at = owners(cluster)
        assert len(set(at.values())) == 3
        for sequence, node in at.items():
            assert node.ask("HGET", key(sequence), "s") == b"2"
        for sequence in SEQUENCES:
            assert setting.ask(second, 100, sequence) == sequence + 110
            assert setting.ask(second, 1000, sequence, end=True) == sequence + 1110
    assert [node.ask("DBSIZE") for node in cluster.masters] == [0, 0, 0]


@pytest.mark.parametrize("mode", ["durable", "behind"])
def test_slots_move_while_steps_run(setting, cluster, mode):
    """While requests run, the slots of their sequences move between nodes by MIGRATE (MOVED and ASK). No step is lost
    or done twice."""
    sequences = list(SEQUENCES)[:6]
    stopping = threading.Event()

    def client(server, sequence):
        total, step = 0, 0
        while not stopping.is_set():
            step += 1
            total += step
            assert setting.ask(server, step, sequence, start=step == 1) == total
        return total, step

    def move(sequence):
        source, slot = cluster.owner(key(sequence))
        target = cluster.masters[(cluster.masters.index(source) + 1) % 3]
        ids = {node: node.ask("CLUSTER", "MYID") for node in (source, target)}
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        time.sleep(0.02)  # steps continue here
        source.ask("MIGRATE", "127.0.0.1", target.port, key(sequence), 0, 5000)
        time.sleep(0.05)  # and here, by ASK
        for node in (target, source):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
        other = next(node for node in cluster.masters if node not in (source, target))
        wait_until(lambda: cluster.owner(key(sequence))[0] is target, what="the first node to know it")
        wait_until(lambda: str(target.port).encode() in _slot_of(other, slot), what="the other node to know it")
        return target

    # On a busy machine nodes may redirect to each other for longer than the default.
    patient = ("--sequence_state_store_timeout_ms", 20000)
    with (
        replica(setting, cluster, *patient, mode=mode) as server,
        replica(setting, cluster, *patient, mode=mode) as other,
    ):
        with concurrent.futures.ThreadPoolExecutor(len(sequences)) as pool:
            clients = [pool.submit(client, server, sequence) for sequence in sequences]
            try:
                for _ in range(2):
                    for sequence in sequences:
                        move(sequence)
            finally:
                stopping.set()
            ends = [each.result() for each in clients]
        for sequence, (total, steps) in zip(sequences, ends, strict=True):
            assert steps > 10
            assert setting.ask(server, 0, sequence) == total
        wait_until(lambda: unconfirmed(server) == 0, what="the store to have all")
        server.kill()
        for sequence, (total, _) in zip(sequences, ends, strict=True):
            assert setting.ask(other, 1, sequence) == total + 1
        asked = b"".join(node.ask("INFO", "errorstats") for node in cluster.masters)
        assert b"errorstat_ASK" in asked
        assert b"errorstat_MOVED" in asked


def unconfirmed(server):
    address = server.metrics or server.http
    _, _, body = server.request("GET", "/metrics", address=address)
    lines = [line for line in body.decode().splitlines() if line.startswith("braid_sequence_store_unconfirmed{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def _slot_of(node, slot):
    """Returns the port of the master with the slot, according to this node."""
    return next(str(each[2][1]).encode() for each in node.ask("CLUSTER", "SLOTS") if each[0] <= slot <= each[1])


@pytest.mark.parametrize("away", ["refuse", "continue"])
def test_a_node_that_is_killed_costs_its_sequences_alone(setting, cluster, away):
    options = ["--sequence_state_store_unavailable", away]
    with replica(setting, cluster, *options) as server:
        for sequence in SEQUENCES:
            assert setting.ask(server, sequence, sequence, start=True) == sequence
        at = owners(cluster)
        lost = cluster.masters[1]
        lost.kill()
        begun = time.monotonic()
        for sequence, node in at.items():
            if node is not lost or away == "continue":
                assert setting.ask(server, 10, sequence) == sequence + 10
            else:
                with pytest.raises(RefusedError, match=f"may or may not be stored.*127.0.0.1:{lost.port}: "):
                    setting.ask(server, 10, sequence)
        assert time.monotonic() - begun < 20
        lost.start()
        # It has restarted without its data.
        if away == "continue":
            wait_until(lambda: unconfirmed(server) == 0, 60, what="the store to have all")
        for sequence, node in at.items():
            if node is not lost:
                assert setting.ask(server, 1, sequence) == sequence + 11
            else:
                assert ask_until_done(setting, server, 7, sequence, start=True) == [7]
                assert setting.ask(server, 1, sequence) == 8


def test_the_replica_of_a_node_goes_on_in_its_place(tmp_path, setting):
    with (
        RedisCluster(tmp_path, replicas=1) as cluster,
        replica(setting, cluster) as server,
        replica(setting, cluster) as other,
    ):
        for sequence in SEQUENCES:
            assert setting.ask(server, sequence, sequence, start=True) == sequence
        at = owners(cluster)
        lost, heir = cluster.masters[2], cluster.replicas[2]
        theirs = [sequence for sequence, node in at.items() if node is lost]
        assert theirs
        wait_until(lambda: heir.ask("DBSIZE") == len(theirs), what="the replica to have their states")
        lost.kill()
        for sequence in SEQUENCES:
            # A server that learns that a step was lost uses the store's state.
            [total] = ask_until_done(setting, server, 10, sequence)
            assert total == sequence + 10
        server.kill()
        for sequence in SEQUENCES:
            assert setting.ask(other, 100, sequence) == sequence + 110
        assert b"role:master" in heir.ask("INFO", "replication")


def test_a_password_and_tls(tmp_path, setting):
    folder = tmp_path / "certificates"
    folder.mkdir()
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", folder], check=True)
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")
    options = ["--sequence_state_store_ca_file", folder / "root.pem", "--sequence_state_store_password_file", secret]
    with (
        RedisCluster(tmp_path, certificates=folder, password="open sesame") as cluster,
        replica(setting, cluster, *options) as server,
        replica(setting, cluster, *options) as other,
    ):
        for sequence in SEQUENCES:
            assert ask_until_done(setting, server, sequence, sequence, start=True) == [sequence]
        assert len(set(owners(cluster).values())) == 3
        server.kill()
        for sequence in SEQUENCES:
            assert setting.ask(other, 10, sequence) == sequence + 10


def test_what_is_no_cluster_and_a_node_alone_are_told(tmp_path, setting, cluster):
    node = cluster.masters[0]
    with setting.serve("--sequence_state_store", f"redis://localhost:{node.port}") as server:
        wrong = next(sequence for sequence, at in owners(cluster).items() if at is not node)
        with pytest.raises(RefusedError, match=r"it is a node of a Redis Cluster; use redis\+cluster://"):
            setting.ask(server, 1, wrong, start=True)
    with (
        Redis(tmp_path) as alone,
        setting.serve("--sequence_state_store", f"redis+cluster://localhost:{alone.port}") as server,
    ):
        server.wait_for_log("it refuses CLUSTER SLOTS: ERR This instance has cluster support disabled")
        with pytest.raises(RefusedError, match="cluster support disabled"):
            setting.ask(server, 1, 1, start=True)
