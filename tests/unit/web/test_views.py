"""A task's page: who stands beside whom, and where the time went."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from page_world import NASTY, delivery, running, sample, voted

from agents.web.views import DeliveryView, path_of, row_of, task_view, title_of
from pipeline.events import HopTimings, InferenceRequest, Message, Outcome, Role, Status
from pipeline.store.tasks import Task

ANSWERS = st.lists(st.sampled_from(["7", "8", "9", None]), min_size=1, max_size=7)


@given(ANSWERS)
def test_every_sample_stands_once_and_the_winners_first(answers: list[str | None]) -> None:
    task, samples = voted(answers)
    view = task_view(task, samples, ())
    shown = [card.index for column in view.columns for card in column.cards]
    assert sorted(shown) == list(range(len(answers)))
    assert [column.group.place for column in view.columns if column.group] == [
        group.place for group in view.groups
    ]
    for column in view.columns:
        said = {card.answer for card in column.cards}
        assert said == ({column.group.answer} if column.group else {None})
    chosen = [card for column in view.columns for card in column.cards if card.chosen]
    if any(answers):
        assert view.columns[0].cards[0] is chosen[0]
    assert len(chosen) == bool(any(answers))


@given(st.lists(st.integers(0, 10_000), min_size=5, max_size=5))
def test_the_bars_of_the_timeline_stay_in_their_whole(times: list[int]) -> None:
    task, samples = voted(["7"])
    assert task.result is not None
    timings = HopTimings(*times)  # clocks of several machines: in any order
    bars = task_view(replace(task, result=replace(task.result, timings=timings)), samples, ()).timeline
    assert all(bar.start >= 0 and bar.width >= 0 and bar.start + bar.width <= 100.01 for bar in bars)


def test_what_is_known_of_a_winner() -> None:
    task, samples = voted(["12", "12", "13"])
    view = task_view(task, samples, ())
    card = view.columns[0].cards[0]
    assert (card.group, card.word, card.chosen, card.path) == (1, "won", True, "direct")
    assert view.columns[1].cards[0].path == "step by step"
    assert card.note == "with the most votes", "its confidence is told by its parts"
    assert card.sureness[:2] == ("confidence 0.910", "tokens 0.880")
    assert card.facts == ("8 tokens", "0.80 s")
    assert view.columns[1].cards[0].word == "outvoted"
    assert "41 saved by stopping early" in view.usage


def test_the_chosen_sample_stands_before_its_like() -> None:
    task, samples = voted(["7", "8", "7", "7"])
    assert task.result is not None
    view = task_view(replace(task, result=replace(task.result, chosen_sample=2)), samples, ())
    assert [card.index for card in view.columns[0].cards] == [2, 0, 3]


def test_samples_to_come_have_a_place_until_the_end() -> None:
    task, samples = running(drawn=1)
    (column,) = task_view(task, samples, ()).columns
    assert [(card.index, card.state) for card in column.cards] == [(0, "done"), (1, "wait"), (2, "wait")]
    ended = replace(task, status=Status.CANCELLED)
    assert [card.index for card in task_view(ended, samples, ()).columns[0].cards] == [0]


def test_before_it_is_opened_the_mode_says_how_many_come() -> None:
    task, _ = running(drawn=0)
    assert task_view(replace(task, expected=None), (), ()).expected == 3
    asked = replace(task.request, sampling=replace(task.request.sampling, n=7))
    assert task_view(replace(task, expected=None, request=asked), (), ()).expected == 7


def test_a_sample_that_came_after_the_result_says_so() -> None:
    task, samples = voted(["7", "7"])
    view = task_view(task, [*samples, sample(2, "The answer is 8.")], ())
    assert [card.word for column in view.columns for card in column.cards] == ["won", "won", "came too late"]


def test_reviews_stand_by_themselves() -> None:
    task, samples = voted(["7", "8"])
    assert task.result is not None
    review = replace(
        task.result.reasoning[0],
        sample_index=9,
        role=Role.REVIEW,
        path="review:0:1",
        outcome=Outcome.REVIEW,
        group=None,
    )
    result = replace(task.result, reasoning=(*task.result.reasoning, review))
    view = task_view(replace(task, result=result), [*samples, sample(9, "A", role=Role.REVIEW)], ())
    assert [card.index for column in view.columns for card in column.cards] == [0, 1]
    assert [(card.index, card.path) for card in view.reviews] == [(9, "#0 against #1")]


def test_the_question_is_the_prompt_or_the_last_words() -> None:
    assert title_of(InferenceRequest("a", "one\n two")) == "one two"
    talk = (Message("system", "be brief"), Message("user", "Why?"))
    assert title_of(InferenceRequest("a", messages=talk)) == "Why?"
    assert title_of(InferenceRequest("a")) == "(no text)"
    assert len(title_of(InferenceRequest("a", NASTY * 50))) == 120


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20))
def test_an_id_of_any_characters_is_one_step_of_a_path(request_id: str) -> None:
    path = path_of(request_id)
    assert path.count("/") == 2
    assert path.isascii() and not set(path) & set(" \"'<>?#\\")


def test_a_row_shows_what_there_is_instead_of_an_answer() -> None:
    done, _ = voted(["7"])
    failed, _ = voted([None], status=Status.FAILED)
    waits = Task(InferenceRequest("a", "b"), Status.PENDING, 1_000, 1_000)
    assert [row_of(each).answer for each in (done, failed, waits)] == ["7", "no_answer", ""]
    assert [row_of(each).took_s for each in (done, waits)] == [2.42, None]


def test_attempts_are_shown_with_their_delivery() -> None:
    task, samples = voted(["7"])
    view = DeliveryView(delivery(attempt=2), (delivery(attempt=1), delivery(attempt=2)))
    assert task_view(task, samples, [view]).deliveries == (view,)
