"""The logic of bench/run-curves and bench/run-latency: samples, tables, plots, idle clients. Starts no server."""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree

import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

from harness import curves, idle, latency, plot  # noqa: E402
from harness.ratios import Sample  # noqa: E402

GRPC, HTTP = (next(curve for curve in curves.CURVES if curve.id == f"sizes-{name}") for name in ("grpc", "http"))
CONNECTIONS = next(curve for curve in curves.CURVES if curve.id == "connections-grpc")
MODELS = next(curve for curve in curves.CURVES if curve.id == "models")


def sizes(rate, cpu=100.0, peak=2048.0):
    return Sample({"mib_per_s": rate, "cpu_us_per_mib": cpu, "peak_pss_kb": peak})


def pair(peer, subject):
    return {"peer": peer, "subject": subject}


# --- curves: the measured points


def test_curves_are_selected_by_id_and_by_kind():
    assert curves.select("") == list(curves.CURVES)
    assert [curve.id for curve in curves.select("sizes-http, models")] == ["models", "sizes-http"]
    assert [curve.id for curve in curves.select("connections")] == ["connections-grpc", "connections-http"]
    with pytest.raises(ValueError, match="heights"):
        curves.select("models,heights")


def test_every_metric_of_a_plot_is_measured():
    for curve in curves.CURVES:
        assert {metric for _, _, lines in curves.PLOTS[curve.kind] for metric, _, _ in lines} <= set(curve.metrics)


def test_memory_of_a_connection_is_the_growth_over_idle_ones():
    load = Sample({"throughput": 5.0})
    sample = curves.connections_sample(load, 1000, pss_before_kb=500, pss_kb=10_500, closed=0)
    assert sample.values == {"throughput": 5.0, "pss_kb_per_connection": 10.0}
    assert curves.connections_sample(load, 84, 500, 600, 0).values == {"throughput": 5.0}


def test_connections_that_did_not_last_fail_a_sample():
    sample = curves.connections_sample(Sample({"throughput": 5.0}), 1000, 0, 0, closed=3)
    assert not sample.usable
    assert "3 of 1000" in sample.error


def test_models_share_the_memory_and_are_asked_alone_and_in_turn():
    one, in_turn = (Sample({"throughput": rate, "cpu_us": 9.0}) for rate in (8.0, 7.0))
    sample = curves.models_sample(10, 1.5, 1000, one, in_turn)
    assert sample.values["pss_kb_per_model"] == 100
    assert (sample.values["throughput_one"], sample.values["throughput_all"]) == (8.0, 7.0)
    assert set(sample.values) == {metric.key for metric in MODELS.metrics}
    assert not curves.models_sample(10, 1.5, 1000, one, Sample({}, 1, "lost")).usable


REPORT = {
    "requests": 1,
    "requests_in_parts": 2.5,
    "seconds": 5.0,
    "server_cpu_cores": 0.5,
    "peak_pss_kb": 300.0,
    "errors": 0,
    "first_error": "",
}


def test_large_requests_count_by_their_parts_within_the_window():
    sample = curves.sizes_sample(REPORT, 4 << 20, peak_pss_kb=200)
    # Ten MiB in five seconds, for two and a half seconds of processor time.
    assert sample.values == {"mib_per_s": 2.0, "cpu_us_per_mib": 250_000.0, "peak_pss_kb": 300.0}
    assert curves.sizes_sample(REPORT, 4 << 20, peak_pss_kb=400).values["peak_pss_kb"] == 400


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"errors": 2, "first_error": "wrong data"}, "wrong data"), ({"requests_in_parts": 0}, "no request")],
)
def test_sizes_without_an_answer_give_no_figure(changes, reason):
    sample = curves.sizes_sample({**REPORT, **changes}, 1024, 0)
    assert not sample.usable
    assert reason in sample.error


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ("HTTP 413: too large", "refused"),
        ("gRPC 8: larger than max", "refused"),
        ("gRPC 3: no", "refused"),
        ("gRPC 13: broken", "failed"),
        ("HTTP 500: broken", "failed"),
    ],
)
def test_refusals_are_told_from_failures(error, word):
    assert curves.word(error) == word


# --- curves: the page


def test_table_has_both_sides_and_the_ratio_of_the_rounds():
    rounds = [pair(sizes(10, 100), sizes(20, 50)), pair(sizes(20, 100), sizes(80, 75))]
    lines = curves.table(GRPC, {1024: rounds})
    assert lines[2:] == [
        "| 1 KiB | Triton | 15.0 | 100 | 2.00 |",
        "|  | Braid | 50.0 | 62.5 | 2.00 |",
        "| | ratio | 3.00 (2.00-4.00) | 0.62 (0.50-0.75) | 1.00 (1.00-1.00) |",
    ]


def test_table_says_what_a_side_refuses_and_what_is_left_out():
    refused = Sample({}, 1, "HTTP 413: too large")
    lines = curves.table(HTTP, {1024: [pair(refused, sizes(20))], 1 << 20: "left out: too large"})
    assert lines[2] == "| 1 KiB | Triton | refused |  |  |"
    assert lines[4] == "| | ratio | - | - | - |"
    assert lines[5] == "| 1 MiB | left out: too large | | | |"


def test_page_has_only_what_was_measured_and_names_its_plots():
    results = {"sizes-http": {1024: [pair(sizes(10), sizes(20))], 16 << 10: [pair(Sample({}, 1, "gone"), sizes(30))]}}
    page, files = curves.document(results, [("Date", "today")])
    assert "## Sizes" in page
    assert "## Models" not in page
    assert "| Date | today |" in page
    assert "- HTTP, c=1, 16 KiB, round 1, Triton: gone" in page
    assert set(files) == {"curves-sizes-rate.svg", "curves-sizes-cpu.svg"}
    assert all(f"(images/{name})" in page for name in files)


def test_run_fails_with_the_subject_or_without_any_figure_of_a_side():
    gone = Sample({}, 1, "gone")
    good = pair(sizes(1), sizes(1))
    assert not curves.failed({"sizes-grpc": {1: [good, pair(gone, sizes(1))], 2: "left out"}})
    assert curves.failed({"sizes-grpc": {1: [good, pair(sizes(1), gone)]}})
    assert curves.failed({"sizes-grpc": {1: [pair(gone, sizes(1))]}, "sizes-http": {1: [good]}})


# --- plots


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (3, 30, [2, 5, 10, 20, 50]),
        (10, 10, [10, 20]),
        (0.3, 0.9, [0.2, 0.5, 1]),
        (2, 70_000, [2, 10, 100, 1000, 10_000, 100_000]),
    ],
)
def test_ticks_are_round_and_around_the_values(low, high, wanted):
    assert plot.ticks(low, high) == pytest.approx(wanted)


@pytest.mark.parametrize(("value", "text"), [(0.2, "0.2"), (50, "50"), (10_000, "10k"), (2e6, "2M")])
def test_numbers_of_an_axis_are_short(value, text):
    assert plot.short(value) == text


def test_plot_is_xml_with_a_line_and_its_points():
    line = plot.Line("a < b", ((1, 10.0), (100, 1000.0)), "subject", dashed=True)
    empty = plot.Line("none", (), "peer")
    text = plot.line_plot('R & "D"', "models", [line, empty], {1: "1", 10: "10", 100: "100"})
    root = ElementTree.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    places = [(float(each.get("cx")), float(each.get("cy"))) for each in root.iter(f"{name}circle")]
    assert places == [(plot.LEFT, plot.HEIGHT - plot.BOTTOM), (plot.WIDTH - plot.RIGHT, plot.TOP)]
    texts = [each.text for each in root.iter(f"{name}text")]
    assert "a < b" in texts
    assert "none" not in texts
    assert "prefers-color-scheme:dark" in text
    assert plot.line_plot("nothing", "models", [empty], {1: "1"}) == ""


# --- idle connections


def test_reply_acknowledges_settings_and_pings_and_sees_the_end_of_the_call():
    ping = idle.frame(idle.PING, 0, 0, b"12345678")
    received = idle.frame(idle.SETTINGS, 0, 0, bytes(6)) + ping + idle.frame(idle.SETTINGS, idle.ACK, 0)
    replies, ended, rest = idle.grpc_reply(received + ping[:5])
    assert replies == idle.frame(idle.SETTINGS, idle.ACK, 0) + idle.frame(idle.PING, idle.ACK, 0, b"12345678")
    assert (ended, rest) == (False, ping[:5])
    trailers = idle.frame(idle.HEADERS, idle.END_HEADERS | idle.END_STREAM, 1, b"x")
    assert idle.grpc_reply(trailers) == (b"", True, b"")


def test_connections_beyond_the_open_files_are_out_of_reach():
    assert idle.reachable(10_000, 20_000)
    assert not idle.reachable(10_000, 10_240)


# --- latency


def report(p50=100.0, **changes):
    quantiles = {"p50": p50, "p99": 2 * p50, "p99_9": 3 * p50}
    usual = {
        "requests": 10,
        "errors": 0,
        "unanswered": 0,
        "rate_held": True,
        "first_error": "",
        "latency_us": quantiles,
    }
    return {**usual, **changes}


UNANSWERED = {"errors": 1, "unanswered": 1, "first_error": "a request was not answered in time"}


def latency_round(changes=None, peer=None):
    """Makes a round of all loads; `changes` apply to the subject's reports, `peer` to the peer's."""
    shares = {whose: {(whose, share): share for share in latency.SHARES} for whose in (latency.OWN, latency.PEERS)}
    return {
        "peer": {"capacity": 1000.0, **{key: report(**(peer or {})) for key in shares[latency.OWN]}},
        "subject": {
            "capacity": 3000.0,
            **{key: report(**(changes or {})) for whose in shares.values() for key in whose},
        },
    }


def test_cell_has_medians_and_counts_what_was_not_kept():
    key = (latency.OWN, 0.3)
    rounds = [{"peer": {key: each}} for each in (report(100), report(200, rate_held=False), report(300, **UNANSWERED))]
    assert latency.cell(rounds, "peer", key) == "200 / 400 / 600 (1 of 3 not held, 1 of 3 left a request unanswered)"
    wrong = [{"peer": {key: report(errors=1, first_error="wrong data")}}]
    assert latency.cell(rounds[:1] + wrong, "peer", key) == "100 / 200 / 300 (1 of 2 failed)"
    assert latency.cell([{"peer": {key: latency.failed_report("gone")}}], "peer", key) == "- (1 of 1 failed)"
    assert latency.cell([{"peer": {}}], "peer", key) == "-"


def test_a_rate_far_too_high_gives_no_figure_and_is_no_failure():
    swamped = {"requests": 0, "rate_held": False}
    key = (latency.OWN, 0.95)
    assert latency.cell([{"peer": {key: report(**swamped)}}], "peer", key) == "- (1 of 1 not held)"
    assert not latency.failed({"grpc": [latency_round(changes=swamped)]})


def test_run_fails_when_the_subject_does_but_not_for_what_the_peer_leaves_unanswered():
    assert not latency.failed({"grpc": [latency_round(peer=UNANSWERED)]})
    assert latency.failed({"grpc": [latency_round(), latency_round(changes=UNANSWERED)]})
    broken = {"errors": 1, "first_error": "wrong data"}
    assert not latency.failed({"grpc": [latency_round(), latency_round(peer=broken)]})
    assert latency.failed({"grpc": [latency_round(peer=broken)]})


def test_run_fails_when_a_side_never_gave_a_figure():
    silent = latency_round()
    silent["peer"] = {"capacity": None, latency.CLOSED: latency.failed_report("gone")}
    assert latency.failed({"grpc": [silent]})
    assert not latency.failed({"grpc": [silent, latency_round()]})


def test_latency_page_shows_what_went_wrong():
    page = latency.page({"http": [latency_round(peer=UNANSWERED)]}, [("Date", "today")])
    assert "16 in flight: peer 1000/s, Braid 3000/s (3.0 times)." in page
    assert "| 30% | 100 / 200 / 300 (1 of 1 left a request unanswered) | 100 / 200 / 300 | 100 / 200 / 300 |" in page
    assert "- HTTP, binary, round 1, peer, 30% of own: 1 errors, of which 1 were left unanswered." in page
    silent = {side: {"capacity": None} for side in ("peer", "subject")}
    assert "peer -, Braid -." in latency.page({"http": [silent]}, [])


def test_rates_of_an_unknown_capacity_are_none():
    assert latency.rates(latency.PEERS, None) == {}
    assert latency.rates(latency.OWN, 1000)[latency.OWN, 0.3] == 300


def test_the_floor_is_a_column_where_it_was_measured():
    page = latency.page({"grpc": [latency_round()]}, [])
    assert "| load | peer | Braid, at the peer's rate | Braid, at that share of its own |\n" in page
    floor = {"capacity": 9000.0, **{(latency.OWN, share): report(p50=50.0) for share in latency.SHARES}}
    page = latency.page({"grpc": [{**latency_round(), "floor": floor}]}, [])
    assert "16 in flight: peer 1000/s, Braid 3000/s, floor 9000/s (3.0 times)." in page
    assert "| 30% | 100 / 200 / 300 | 100 / 200 / 300 | 100 / 200 / 300 | 50 / 100 / 150 |\n" in page
    assert not latency.failed({"grpc": [{**latency_round(), "floor": floor}]})
