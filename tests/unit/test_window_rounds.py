"""What a window waits for once all its answers are in: reviews, programs, and how it ends without them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from window_events import DEADLINE, opened, sample, window_of

from pipeline.events import Kind, Mode, Role, Sample, Status
from pipeline.fusion import CheckedProgram, ReviewOptions, VoteOptions
from pipeline.fusion.code_choice import ProgramChecks
from pipeline.fusion.review import Pair
from pipeline.scheduling.review_round import LONGEST_SHOWN, review_groups
from pipeline.windows import Asked, Window, WindowBook

OPTIONS = VoteOptions(min_share=0.4, review=ReviewOptions())
LEVEL = ("7", "8", "8", "7")
NOW = 10_000


def deep(*answers: str, tokens: int = 2048, question: str = "What is 3 + 4?") -> Window:
    marker = replace(opened(len(answers), Mode.DEEP), question=question, max_new_tokens=tokens)
    window = window_of(marker, [sample(index, answer) for index, answer in enumerate(answers)])
    window.options = OPTIONS
    return window


def ask(window: Window, now: int = NOW) -> list[Pair]:
    """As the aggregator does it."""
    plan = window.round(now)
    assert plan is not None
    window.asked = Asked.of(plan)
    return list(plan.pairs)


def review(index: int, pair: Pair, better: str) -> Sample:
    return replace(sample(index, better, role=Role.REVIEW), path=pair.path)


def test_answers_that_disagree_are_reviewed_before_the_window_closes() -> None:
    window = deep(*LEVEL)
    assert window.settle(NOW) == []
    pairs = ask(window)
    assert window.round(NOW) is None and window.outstanding
    assert window.settle(NOW) == []
    window.add(review(4, pairs[0], "B"))
    assert window.settle(NOW) == []
    window.add(review(5, pairs[1], "A"))
    (result,) = window.settle(NOW)
    assert (result.status, result.chosen_sample) == (Status.DONE, pairs[0].b)
    assert (result.usage.samples_expected, len(result.reasoning)) == (4, 6)
    assert result.usage.completion_tokens == 6 * 5
    assert not window.outstanding


def test_a_round_that_was_asked_for_by_an_owner_that_died_is_the_same_and_is_not_asked_for_again() -> None:
    window = deep("1", "2", "3", "4")
    plan = window.round(NOW)
    assert plan is not None and len(plan.pairs) == 6
    for index, pair in enumerate(plan.pairs, 4):
        assert window.round(NOW) == plan and window.settle(NOW) == []
        window.add(review(index, pair, "A" if pair.a > pair.b else "B"))
    assert window.round(NOW) is None
    assert [result.chosen_sample for result in window.settle(NOW)] == [max(p.a for p in plan.pairs)]


def test_a_round_that_does_not_come_in_time_leaves_the_vote() -> None:
    window = deep(*LEVEL)
    (plain,) = deep(*LEVEL, question="").settle(NOW)
    pairs = ask(window)
    assert window.asked is not None
    window.add(review(4, pairs[0], "B"))
    assert window.settle(window.asked.until - 1) == []
    (result,) = window.settle(window.asked.until)
    assert (result.status, result.answer, result.votes) == (Status.DONE, plain.answer, plain.votes)


def test_the_round_costs_a_share_of_time_and_tokens() -> None:
    plan = deep(*LEVEL).round(NOW)
    assert plan is not None
    assert plan.until == NOW + round((DEADLINE - 900) / 4)
    assert len(plan.pairs) * plan.max_new_tokens <= 4 * 2048 / 4
    late = deep(*LEVEL).round(DEADLINE - 10)
    assert late is not None and late.until == DEADLINE
    assert deep(*LEVEL).round(DEADLINE) is None
    many = deep("1", "2", "3", "4", tokens=100).round(NOW)
    assert many is not None and (len(many.pairs), many.max_new_tokens) == (6, 16)
    assert len((deep("1", "2", "3", "4", tokens=60).round(NOW) or many).pairs) == 2
    assert deep("1", "2", "3", "4", tokens=30).round(NOW) is None


@pytest.mark.parametrize(("answers", "question"), [(("7", "7", "7", "8"), "q"), (("7",), "q"), (LEVEL, "")])
def test_who_is_not_reviewed(answers: tuple[str, ...], question: str) -> None:
    window = deep(*answers, question=question)
    assert window.round(NOW) is None and window.settle(NOW)


def test_reviews_go_on_where_the_answers_end_and_show_both_chains() -> None:
    window = deep(*LEVEL)
    long = "x" * 5_000 + " The answer is 7."
    window.samples[0] = replace(window.samples[0], text=long)
    plan = window.round(NOW)
    assert plan is not None and window.opened is not None
    groups = review_groups(plan, window.opened, window.samples)
    assert [group.tasks[0].sample_index for group in groups] == [4, 5]
    assert {group.tasks[0].role for group in groups} == {Role.REVIEW}
    assert {group.deadline_at for group in groups} == {plan.until}
    (turn,) = groups[0].messages
    assert turn.content.startswith("What is 3 + 4?\n\n")
    assert "[…]" in turn.content and turn.content.count("The answer is 7.") == 1
    assert len(turn.content) < 2 * LONGEST_SHOWN + 1_000
    (chinese, _) = review_groups(plan, replace(window.opened, language="zh"), window.samples)
    assert "答案是A" in chinese.messages[0].content


def test_a_round_that_is_not_waited_for_any_more_is_asked_of_the_clock() -> None:
    window = deep(*LEVEL)
    ask(window)
    assert window.asked is not None
    book = WindowBook({("q", 0): window}, OPTIONS)
    assert book.overdue(window.asked.until - 1) == []
    assert book.overdue(window.asked.until) == [("q", 0)]
    assert book.overdue(DEADLINE) == [("q", 0)]


def test_answers_that_all_differ_are_asked_back_about() -> None:
    window = window_of(opened(3), [sample(index, answer) for index, answer in enumerate("123")])
    window.options = OPTIONS
    (result,) = window.settle(NOW)
    assert (result.status, result.answer, result.chosen_sample) == (Status.NEEDS_CLARIFICATION, None, None)
    assert result.clarifying_question and result.confidence is not None
    assert result.why.endswith("under the floor of 0.4 of the votes")


def test_what_was_not_waited_for_is_saved_by_estimate() -> None:
    sure = [replace(sample(i, "42"), mean_logprob=-0.01, completion_tokens=10 * (i + 1)) for i in range(4)]
    (result,) = window_of(opened(5), sure).settle(NOW)
    assert result.usage.saved_tokens == 25
    (late,) = window_of(opened(5), sure[:1]).settle(DEADLINE)
    assert late.usage.saved_tokens == 0
    (whole,) = window_of(opened(4), sure).settle(NOW)
    assert whole.usage.saved_tokens == 0


def programs() -> Window:
    marker = replace(opened(2), kind=Kind.CODE, tests="assert f() == 1")
    texts = ["```python\ndef f(): return 0\n```", "```python\ndef f(): return 1\n```"]
    return window_of(marker, [replace(sample(i, "x"), text=text) for i, text in enumerate(texts)])


def test_programs_are_run_before_the_window_closes() -> None:
    window = programs()
    assert window.settle(NOW) == [] and window.unchecked
    assert WindowBook({("q", 0): window}).complete() == [("q", 0)]
    ran = (CheckedProgram(0, "zero", (False,)), CheckedProgram(1, "one", (True,)))
    window.checks = ProgramChecks(ran, given=True)
    (result,) = window.settle(NOW)
    assert (result.answer, result.chosen_sample, result.status) == ("one", 1, Status.DONE)


def test_programs_that_are_not_run_in_time_are_voted_on() -> None:
    (result,) = programs().settle(DEADLINE)
    assert result.status is Status.DONE
    assert result.why.endswith("no program was run in time: the samples' agreement decided")


def test_reviews_go_on_with_their_requests_trace() -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    window = deep(*LEVEL)
    assert window.opened is not None
    window.opened = replace(window.opened, trace=trace)
    plan = window.round(NOW)
    assert plan is not None
    groups = review_groups(plan, window.opened, window.samples)
    assert groups and {group.trace for group in groups} == {trace}
