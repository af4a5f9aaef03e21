"""Tests that are excluded from recordings, with reasons. Patterns are those of fnmatch, on FILE::TEST."""

import fnmatch

UNRECORDED = {
    "test_campaigns.py::*": "scripts of their own, in which processes are killed at random",
    "test_campaigns_fleet.py::*": "a script of its own, in which servers are killed at random",
    "test_failing_allocator.py::*": "allocations fail by signals that a test sends",
    "test_descendants.py::*": "processes are killed",
    "test_healing.py::*": "processes are killed at random",
    "test_bls.py::test_a_killed_fork*": "a process is killed",
    "test_graph_streams.py::test_a_worker_that_is_killed": "a process is killed",
    "test_python_models.py::test_module_knows_where_it_is": "answers with the folder of the build",
    "test_python_models.py::test_config_argument_is_the_whole*": "answers with the folder of the build",
    "test_sequence.py::*iterative*": "a random key",
    "test_sequence.py::test_many_sequences_of_both*": "several requests at once, and how they are batched",
    "test_stateful_pipelines.py::test_every_response_tells_the_sequence_once": "the server draws a sequence id",
    "test_stateful_pipelines.py::test_a_graph_tells_the_servers_id": "the server draws a sequence id",
    "test_ovms_config.py::test_requests_do_not_notice_reloads": "which version answers while one replaces another",
    "test_repository.py::test_poll_sees*": "the server polls at its own times",
    "test_statistics_metrics.py::test_summaries_and_histograms": "two models answer on one stream",
    "test_large.py::*": "gigabytes",
    "test_unix_sockets.py::*": "clients at Unix sockets, where the recorder has no proxies",
    "test_environments.py::*": "whole Python environments, gigabytes",
    "test_grpc_extra.py::test_ten_million_strings": "hundreds of megabytes",
    "test_logging.py::test_metadata_of_clients_makes_no_lines*": "metadata that gRPC itself takes away",
    "test_graph_streams.py::test_a_thousand_streams": "minutes when played one message at a time",
}


def unrecorded(test):
    """Whether a test is excluded."""
    return any(fnmatch.fnmatchcase(short(test), pattern) for pattern in UNRECORDED)


def short(test):
    """Returns FILE::TEST of a test's name, without folders."""
    file, _, name = test.partition("::")
    return f"{file.rpartition('/')[2]}::{name}"
