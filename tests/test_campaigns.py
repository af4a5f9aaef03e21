"""The campaigns of tests/campaigns, each for some seconds (`make nightly` runs them for minutes), and their tools: the
checker of histories, slopes, ledgers."""

import itertools
import math
import random

import pytest
from campaigns import linearizable, porcupine, slopes
from campaigns.ledger import Allowance, Ledgers
from campaigns.linearizable import Operation, linearization, unexplained
from campaigns.sequence_models import EXISTS, FAILED, LOSE, LOST, MISSING, REFUSED, batched, stateful
from campaigns.transports import CutError, RefusedError, WrongError
from harness.campaigns import run_campaign

# ---- the campaigns themselves ----------------------------------------------------------------------


def test_chaos_loses_nothing_and_leaves_nothing():
    # The limit is for busy machines; run alone, a server heals within five seconds.
    printed = run_campaign(
        "chaos", "--requests", 100_000, "--seconds", 10, "--every", 0.3, "--seed", 7, "--heal-seconds", 20
    )
    for strand in (
        "default",
        "decoupled",
        "BLS",
        "sequence",
        "ensemble",
        "pipeline",
        "generator",
        "stateful",
        "calculators",
    ):
        assert f"| {strand} | " in printed
    for blow in ("workers killed", "zygote stopped", "connections cut", "model reloaded", "descriptors"):
        assert f"| {blow} | " in printed


def test_histories_of_sequences_are_linearizable():
    printed = run_campaign("linearizability", "--seconds", 4, "--seed", 3)
    assert "| undecided |" not in printed
    assert "| of unknown outcome |" in printed


def test_soak_measures_slopes():
    arguments = ("--minutes", 0.1, "--warm-up", 0.03, "--reload-every", 2, "--rate", 150, "--limit", 1e6)
    assert "| descriptors |" in run_campaign("soak", *arguments)


def test_failing_calls_and_allocations_cost_requests_and_not_the_server():
    printed = run_campaign("failures", "--seconds", 3, "--one-in", 500, "--every", 1, "--heal-seconds", 60)
    assert "| epoll_wait | " in printed
    assert " x out of memory" in printed


# ---- the checker of histories ----------------------------------------------------------------------


def serial(*steps):
    """Returns a history of one client: (action, x, answer) in sequence."""
    return [Operation(2 * i, 2 * i + 1, (what, x), told) for i, (what, x, told) in enumerate(steps)]


GOOD = [("start", 5, ("sum", 5)), ("step", 3, ("sum", 8)), ("end", 1, ("sum", 9)), ("step", 2, MISSING)]


@pytest.mark.parametrize("model", [stateful, batched])
def test_a_serial_history(model):
    history = serial(*GOOD)
    assert linearization(history, model, None) == history
    assert linearization([], model, None) == []


@pytest.mark.parametrize("model", [stateful, batched])
@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, ("start", 5, ("sum", 6))),
        (1, ("step", 3, ("sum", 5))),  # lost
        (1, ("step", 3, ("sum", 11))),  # done twice
        (1, ("step", 3, MISSING)),
        (2, ("end", 1, ("sum", 6))),  # from an older state
        (3, ("step", 2, ("sum", 11))),  # after its end
        (3, ("step", 2, EXISTS)),
    ],
)
def test_a_serial_history_with_one_wrong_answer(model, place, wrong):
    steps = [*GOOD]
    steps[place] = wrong
    history = serial(*steps)
    assert linearization(history, model, None) is None
    assert unexplained(history, model, None)[-1] == history[place]


def test_a_start_of_a_sequence_that_lives():
    again = [("start", 5, ("sum", 5)), ("start", 7, ("sum", 7)), ("step", 1, ("sum", 8))]
    assert linearization(serial(*again), batched, None)
    assert linearization(serial(*again), stateful, None) is None
    refused = [("start", 5, ("sum", 5)), ("start", 7, EXISTS), ("step", 1, ("sum", 6))]
    assert linearization(serial(*refused), stateful, None)
    assert linearization(serial(*refused), batched, None) is None


def test_operations_at_the_same_time_may_come_in_any_order():
    start = Operation(0, 1, ("start", 1), ("sum", 1))
    first, second = Operation(2, 5, ("step", 10), ("sum", 111)), Operation(3, 4, ("step", 100), ("sum", 101))
    assert linearization([start, first, second], stateful, None) == [start, second, first]
    both = [start, Operation(2, 5, ("step", 10), ("sum", 11)), Operation(3, 4, ("step", 100), ("sum", 101))]
    assert linearization(both, stateful, None) is None, "a lost update"


def test_what_has_ended_comes_before_what_begins_later():
    start = Operation(0, 1, ("start", 1), ("sum", 1))
    stale = [start, Operation(2, 3, ("step", 10), ("sum", 111)), Operation(4, 5, ("step", 100), ("sum", 101))]
    assert linearization(stale, stateful, None) is None


def test_an_unknown_outcome_may_be_either_and_late():
    start = Operation(0, 1, ("start", 1), ("sum", 1))
    vanished = Operation(2, math.inf, ("step", 10), None, optional=True)
    for sums in ((101, 201), (111, 211), (101, 211)):
        steps = [Operation(4 + 2 * i, 5 + 2 * i, ("step", 100), ("sum", value)) for i, value in enumerate(sums)]
        assert linearization([start, vanished, *steps], stateful, None), sums
    for sums in ((111, 201), (121, 221)):
        steps = [Operation(4 + 2 * i, 5 + 2 * i, ("step", 100), ("sum", value)) for i, value in enumerate(sums)]
        assert linearization([start, vanished, *steps], stateful, None) is None, sums


def test_what_is_lost_is_lost_at_its_time():
    def history(lost_from, lost_until):
        return [
            *serial(("start", 1, ("sum", 1)), ("step", 2, ("sum", 3)), ("step", 4, MISSING)),
            Operation(lost_from, lost_until, (LOSE, 0), None, optional=True),
        ]

    assert linearization(history(2.5, 4.5), batched, None)
    assert linearization(history(0, 9), batched, None)
    assert linearization(history(0, 1.5), batched, None) is None, "over before the second answer"
    assert linearization(history(6, 7), batched, None) is None, "later than it was noticed"


def test_errors_that_a_death_brings():
    for told, next_told in ((LOST, MISSING), (FAILED, MISSING), (FAILED, ("sum", 5)), (REFUSED, ("sum", 5))):
        assert linearization(serial(GOOD[0], ("step", 9, told), ("step", 0, next_told)), batched, None), (
            told,
            next_told,
        )
    assert linearization(serial(GOOD[0], ("step", 9, LOST), ("step", 0, ("sum", 5))), batched, None) is None
    assert linearization(serial(GOOD[0], ("step", 9, REFUSED), ("step", 0, MISSING)), batched, None) is None


def by_brute_force(history, step, initial):
    """Whether any order, with any of the optional operations, explains it."""
    required = [each for each in history if not each.optional]
    optional = [each for each in history if each.optional]
    for count in range(len(optional) + 1):
        for chosen in itertools.combinations(optional, count):
            for order in itertools.permutations([*required, *chosen]):
                in_time = all(a.invoked <= b.returned for a, b in itertools.combinations(order, 2))
                states = {initial}
                for each in order if in_time else ():
                    states = {after for state in states for after in step(state, each)}
                if in_time and states:
                    return True
    return False


@pytest.mark.parametrize("model", [stateful, batched])
def test_the_checker_agrees_with_brute_force(model):
    """Checks small histories: some as a server produces them, some with a changed answer."""
    verdicts = []
    for history in small_histories(model, 300):
        found = linearization(history, model, None)
        assert (found is not None) == by_brute_force(history, model, None), history
        verdicts.append(found is not None)
    assert 50 < sum(verdicts) < 250


@pytest.mark.parametrize("model", [stateful, batched])
def test_the_checker_agrees_with_porcupine(model):
    if not porcupine.available():
        pytest.skip("porcupine is not there; run scripts/public-clients, which says what it needs")
    histories = list(small_histories(model, 500, most=9))
    expected = [linearization(history, model, None) is not None for history in histories]
    assert porcupine.verdicts([(model.__name__, history) for history in histories]) == expected


def small_histories(model, count, most=5):
    """Yields histories that a server may produce, and some with an impossible answer."""
    draw = random.Random(4)
    for _ in range(count):
        state, now, history = None, 0.0, []
        for _ in range(draw.randint(1, most)):
            asked = (draw.choice(("start", "step", "step", "end")), draw.choice((1, 2, 4)))
            now += 1
            answers = [("sum", (state or 0) + asked[1]), ("sum", asked[1]), MISSING, EXISTS]
            possible = [told for told in answers if model(state, Operation(0, 0, asked, told))]
            told = draw.choice(possible if draw.random() < 0.8 else answers)
            began, ended = now - draw.uniform(0, 3), now + draw.uniform(0, 3)
            vanished = draw.random() < 0.2
            operation = Operation(began, math.inf if vanished else ended, asked, None if vanished else told, vanished)
            history.append(operation)
            after = model(state, operation)
            state = after[0] if after else state
        yield history


def test_a_long_history_of_many_clients_is_decided():
    draw = random.Random(5)
    state, history = None, []
    for i in range(300):
        what = "start" if state is None else draw.choice(("step", "step", "step", "end"))
        x = draw.randint(1, 999)
        total = (state or 0) + x
        history.append(Operation(i - draw.uniform(0, 4), i + draw.uniform(0, 4), (what, x), ("sum", total)))
        state = None if what == "end" else total
    assert linearization(history, stateful, None)
    place = 200
    value = history[place].told[1] + 1000
    history[place] = Operation(history[place].invoked, history[place].returned, history[place].asked, ("sum", value))
    assert linearization(history, stateful, None) is None
    assert len(unexplained(history, stateful, None)) < 220


def test_a_check_that_would_take_too_long_is_given_up():
    start = Operation(0, 1, ("start", 1), ("sum", 1))
    vanished = [Operation(2, math.inf, ("step", 1 << i), None, optional=True) for i in range(20)]
    with pytest.raises(linearizable.TooManyStatesError):
        linearization([start, *vanished, Operation(3, 4, ("step", 1), MISSING)], stateful, None, most=1000)


# ---- slopes ----------------------------------------------------------------------------------------


def test_the_slope_of_a_straight_line():
    found = slopes.slope([(second, 1000 + second / 36) for second in range(0, 3600, 60)])
    mean = 1000 + 3540 / 2 / 36
    assert found.percent_per_hour == pytest.approx(100 * 100 / mean)
    assert found.uncertainty == pytest.approx(0, abs=1e-9)
    assert found.exceeds(0.1)


def test_noise_is_not_growth():
    draw = random.Random(6)
    decided = 0
    for _ in range(200):
        points = [(60.0 * minute, 1000 + draw.gauss(0, 1)) for minute in range(120)]
        found = slopes.slope(points)
        assert abs(found.percent_per_hour) < 0.2
        decided += not found.exceeds(0)
    assert decided >= 190  # a false alarm is allowed one time in 40


def test_growth_within_noise():
    draw = random.Random(7)
    found = slopes.slope([(60.0 * minute, 1000 + minute / 12 + draw.gauss(0, 1)) for minute in range(120)])
    assert found.exceeds(0.1)
    assert found.percent_per_hour == pytest.approx(0.5, abs=0.1)
    short = slopes.slope([(60.0 * minute, 1000 + minute / 12 + draw.gauss(0, 1)) for minute in range(4)])
    assert not short.exceeds(0.1)
    assert short.undecided(0.1)


def test_averages():
    points = [(second, second % 10) for second in range(0, 45)]
    assert slopes.averages(points, 10) == [(4.5, 4.5), (14.5, 4.5), (24.5, 4.5), (34.5, 4.5)]


# ---- ledgers ---------------------------------------------------------------------------------------


class Connection:
    was_cut = False


def attempt(ledgers, outcome):
    def work():
        if outcome is not None:
            raise outcome

    return ledgers.make().attempt(("strand", "protocol"), Connection(), work)


def test_each_request_has_one_outcome():
    ledgers = Ledgers(Allowance())
    assert attempt(ledgers, None)
    assert not attempt(ledgers, RefusedError(503, "no instance of model 'm' is available: it ended"))
    ledgers.check_outcomes()
    assert ledgers.all_wrong() == []
    assert not attempt(ledgers, RefusedError(500, "internal error"))
    assert not attempt(ledgers, CutError("reset"))
    assert not attempt(ledgers, WrongError("3 instead of 4"))
    assert [line.partition(": ")[2] for line in ledgers.all_wrong()] == [
        "500: internal error",
        "the connection ended: reset",
        "3 instead of 4",
    ]
    assert (ledgers.count("sent"), ledgers.count("answered"), ledgers.count("refused")) == (5, 1, 2)


def test_a_request_without_an_outcome_is_wrong():
    ledgers = Ledgers(Allowance())
    ledgers.make().sent["strand", "protocol"] += 1
    ledgers.check_outcomes()
    assert ledgers.all_wrong() == ["strand over protocol: 1 requests and 0 outcomes"]


def test_some_errors_are_allowed_for_a_time():
    allowance = Allowance()
    assert not allowance.allows("Too many open files")
    allowance.permit("Too many open files", 60)
    assert allowance.allows("accept: Too many open files")
