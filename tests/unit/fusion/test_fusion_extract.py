from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import FinishReason
from pipeline.fusion import equivalent, extract_answer

STOP = [
    ("So he keeps 72, all told, at the end.", "72"),
    (r"In total: \boxed{$9{,}500}", "9500"),
    (r"\boxed{8,000}", "8000"),
    (r"Then it is \boxed{\frac{11}{3}} exactly.", r"\frac{11}{3}"),
    (r"At first \boxed{1} looks right. Check: the answer is \boxed{4}. (\boxed{4} was asked for)", "4"),
    (r"At first $\boxed 3$ looks right. Check: the answer is \boxed{4}.", "4"),
    (r"We get \fbox{46}", "46"),
    ("671 + 234 = 905 and right 905. ✅ Final Answer: **73**", "73"),
    ("answer: 45", "45"),
    (r"\boxed{\{1,2\}}", r"\{1,2\}"),
    (r"Put it in \boxed{}. The answer is 5.", "5"),
    (r"\boxed{\boxed{7}}", "7"),
    ("Some work.\n#### 42", "42"),
    ("#### Step two\nmore work\nThe answer is 3.", "3"),
    ("The final answer is 2.5. I hope it is correct.", "2.5"),
    ("The answer is 4. This answer is correct.", "4"),
    ("The answer is 3 because 1 + 2 = 3.", "3"),
    ("**Final Answer:** 73", "73"),
    ("**Answer**\n\n73", "73"),
    ("The answer is (C).", "(C)"),
    ("The correct answer is **B) 12**.", "B) 12"),
    ("答案是：12。", "12"),
    ("因此选C。", "C"),
    ("正确答案为 B。", "B"),
    ("The answer is:\n\n\\[ x = 5 \\]", "x = 5"),
    ("The capital of France is Paris.", "Paris"),
    ("Paris is the capital of France.", "Paris"),
    ("法国的首都是巴黎。", "巴黎"),
    ("巴黎是法国的首都。", "巴黎"),
    ("7 + 5 = 12.", "12"),
    ("The sum of 7 and 5 is 12.", "12"),
    ("We add.\n7 + 5 = 12\nTherefore, the sum is 12.", "12"),
    ("The capital of France is Paris. The tower there was built in 1889.", "Paris"),
    ("Paris.", "Paris"),
    ("[2,5)", "[2,5)"),
    ("The answer is not 5 but 6.", "6"),
    ("The answer is 6, not 5.", "6"),
    ("The answer is 5 (not 6).", "5"),
    ("The answer is therefore 9.", "9"),
    ("Answer: 5 (five)", "5"),
    ("The answer is either 5 or 6.", "5 or 6"),
    ("The answer is Mr. Smith.", "Mr. Smith"),
    ("The solutions are x = 1 and x = 2.", "x = 1 and x = 2"),
    ("答案不是5，而是6。", "6"),
    ("正确答案是B，不是C。", "B"),
    ("答：小明有12个苹果。", "12个苹果"),
    ("x=1 or x=2", "x=1 or x=2"),
    ("经过分析，选项D正确。", "D"),
    ("综上所述，选项D正确，其余错误。", "D"),
    ("A选项正确吗？不，因此D正确。", "D"),
    ("所以本题选ABD。", "ABD"),
    ("故选：ACD", "ACD"),
    ("答案：D.42", "D.42"),
    ("Therefore, option D is correct.", "D"),
    ("Plan B is right next to the bank. It costs 40 a month, he said.", "right next to the bank"),
    ("Way B is correct. Then 3 * 4 = 12.", "12"),
    ("因此t=5s。", "5 s"),
    ("The slope is then y = 5m.", "5m"),
    ("他们俩一共花了5元。", "5"),
    ("Here:\n\n~~~\nprint(1)\n~~~\nThat is all.", "print(1)"),
    ("~~~python\nx = '```'\nprint(x)\n~~~", "x = '```'\nprint(x)"),
    ("<think>maybe the answer is 4.</think>The answer is 5.", "5"),
]


@pytest.mark.parametrize(("text", "answer"), STOP)
def test_the_last_marker_or_what_the_text_states(text: str, answer: str) -> None:
    assert extract_answer(text) == answer


def test_a_box_is_compared_by_value() -> None:
    assert equivalent(extract_answer(r"\boxed{\frac{11}{3}}") or "", "11/3")


@pytest.mark.parametrize(
    "text",
    [
        r"so the result is \boxed{\frac{3}{7",
        r"\boxed{3} but wait, \boxed{\frac{3}{7",
        "Let me think. 3 apples and 4 oranges make 7",
        "The answer is 12",
        "<think>the answer is 4. but",
        "",
    ],
)
@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.TIMEOUT])
def test_a_cut_text_without_a_finished_statement_abstains(text: str, reason: FinishReason) -> None:
    assert extract_answer(text, reason) is None


@pytest.mark.parametrize("text", [r"The answer is \boxed{12} and", "The answer is 12. And so"])
def test_a_cut_text_with_a_finished_statement_counts(text: str) -> None:
    assert extract_answer(text, "length") == "12"


@pytest.mark.parametrize("text", ["", "  \n", r"\boxed{\frac{3}{7", "<think>it goes on"])
def test_no_answer(text: str) -> None:
    assert extract_answer(text) is None


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{" * 20_000,
        "the answer is " * 10_000,
        "**a" * 50_000,
        "```\n" * 30_000,
        "$" * 100_000,
        "所以，" * 50_000,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_repeated_markers_are_read_in_bounded_time(text: str) -> None:
    extract_answer(text)


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                r"\boxed{",
                "}",
                "####",
                "\n",
                "the answer is ",
                "答案是",
                "**",
                "$",
                " = ",
                "```",
                "<think>",
                "</think>",
                "So ",
                "3",
                ". ",
                r"\fbox ",
            ]
        ),
        st.text(max_size=5),
    ),
    max_size=20,
).map("".join)


@settings(max_examples=120, deadline=None)
@given(PIECES, st.sampled_from(list(FinishReason)))
def test_never_raises_and_never_gives_a_blank(text: str, reason: FinishReason) -> None:
    answer = extract_answer(text, reason)
    assert answer is None or answer.strip()
