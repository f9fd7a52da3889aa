"""From chat turns to ids: one BOS, a fallback without a template, no need of a padding token."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_support import run_all, running, task
from tokenizers.processors import TemplateProcessing

from pipeline.engine.prompts import PromptEncoder, fold_system, render_plain
from pipeline.errors import BadMessagesError
from pipeline.events import Message
from tests.tiny_model import BOS, tiny_tokenizer

HELLO = (Message("user", "hello"),)


def adding_bos():
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.bos_token_id)]
    )
    assert tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id
    return tokenizer


@pytest.mark.parametrize("make", [tiny_tokenizer, adding_bos])
@pytest.mark.parametrize("template", ["with bos", "without bos", None])
def test_a_prompt_begins_with_at_most_one_bos(make, template):
    """F11."""
    tokenizer = make()
    if template != "with bos":
        tokenizer.chat_template = template and tokenizer.chat_template.replace("{{ bos_token }}", "")
    ids = PromptEncoder(tokenizer).encode(HELLO)
    wanted = 1 if make is adding_bos or template == "with bos" else 0
    assert ids.count(tokenizer.bos_token_id) == wanted
    assert list(ids[:wanted]) == [tokenizer.bos_token_id] * wanted


def test_without_a_template_turns_become_plain_lines():
    """F12."""
    messages = (Message("system", "Be short."), Message("user", "2 + 2?"))
    assert render_plain(messages) == "System: Be short.\nUser: 2 + 2?\nAssistant:"


def test_without_template_and_padding_token_samples_of_unequal_length_run(tiny):
    """F02 and F12."""
    bare = tiny_tokenizer()
    bare.chat_template = None
    bare.pad_token = None
    with running(replace(tiny, tokenizer=bare)) as (engine, recorder):
        completions = run_all(engine, recorder, [task(i, "w" * (i + 1), max_new_tokens=4) for i in range(4)])
    assert [one.error for one in completions] == [None] * 4
    plain = len(render_plain([Message("user", "")]))
    assert [one.prompt_tokens for one in completions] == [plain + i + 1 for i in range(4)]


def strict_tokenizer():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{% for message in messages %}{% if message['role'] == 'system' %}"
        "{{ raise_exception('System role not supported') }}{% endif %}{{ message['content'] }}{% endfor %}"
    )
    return tokenizer


def test_a_template_without_system_turns_gets_it_in_the_first_user_turn():
    messages = (Message("system", "Be short."), Message("user", "hi"))
    tokenizer = strict_tokenizer()
    assert tokenizer.decode(PromptEncoder(tokenizer).encode(messages)) == "Be short.\n\nhi"
    assert fold_system(HELLO) == HELLO


def test_turns_of_which_a_template_makes_nothing_harm_nobody(tiny):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{% for message in messages if message['role'] == 'user' %}{{ message['content'] }}{% endfor %}"
    )
    empty = replace(task("empty"), messages=(Message("assistant", "hi"),))
    with running(replace(tiny, tokenizer=tokenizer)) as (engine, recorder):
        bad, fine = run_all(engine, recorder, [empty, task("fine", "hello", temperature=0, max_new_tokens=5)])
    assert bad.error.code == "bad_messages" and not bad.error.retriable
    assert fine.error is None and fine.completion_tokens


def test_a_text_that_the_tokenizer_can_not_read_fails_with_a_code():
    with pytest.raises(BadMessagesError, match="tokenizer"):
        PromptEncoder(tiny_tokenizer()).encode((Message("user", "\ud800"),))


def test_turns_that_a_template_refuses_fail_with_a_code():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{{ raise_exception('Roles must alternate') }}"
    with pytest.raises(BadMessagesError, match="alternate"):
        PromptEncoder(tokenizer).encode(HELLO)
