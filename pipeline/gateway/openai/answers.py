"""A task as OpenAI's objects: a response, or a chat completion. Pure."""

from __future__ import annotations

from typing import Any

from pipeline.delivery.openai_event import is_cut, response_id, response_status
from pipeline.events import Chain, FinishReason, Result, Role, Status
from pipeline.fitting import first_bytes
from pipeline.gateway.openai.bodies import LONGEST_TEXT, MOST_PAIRS
from pipeline.live.words import json_line
from pipeline.scheduling.modes import profile_of
from pipeline.store.tasks import Task

_SHORT = 64
_DRAWN = (FinishReason.STOP, FinishReason.LENGTH)


def text_of(result: Result | None) -> str:
    """What is said to who asked: the chosen sample's whole text, or the question back."""
    if result is None:
        return ""
    if result.status is Status.NEEDS_CLARIFICATION:
        return result.clarifying_question or ""
    chosen = _chosen(result)
    return chosen.text if chosen is not None else result.answer or ""


def chat_id(request_id: str) -> str:
    return f"chatcmpl-{request_id}"


def message_id(request_id: str) -> str:
    return f"msg_{request_id}"


def metadata_of(task: Task) -> dict[str, str]:
    """What the client gave, and beside it, as far as there is room, what the vote says."""
    result = task.result
    told = {
        "status": str(task.status),
        "mode": str(task.request.mode),
        "priority": str(task.request.priority),
    }
    if result is not None:
        told |= {
            "answer": "" if result.answer is None else first_bytes(result.answer, LONGEST_TEXT),
            "confidence": "" if result.confidence is None else f"{result.confidence:g}",
            "votes": _votes(result),
        }
    given = task.request.metadata
    room = max(MOST_PAIRS - len(given), 0)
    new = [name for name in ("status", "answer", "confidence", "votes", "mode", "priority") if name in told]
    return given | {name: told[name] for name in [name for name in new if name not in given][:room]}


def response_document(task: Task, model: str, *, background: bool | None = None) -> dict[str, Any]:
    """A ``Response``.

    Args:
        background: as it was asked, where that is known.
    """
    asked, result, over = task.request, task.result, task.status.terminal
    status = response_status(task.status, result)
    text = text_of(result) if over else ""
    item = message_item(asked.request_id, text, "completed" if status == "completed" else "incomplete")
    cut = over and result is not None and is_cut(result)
    temperature = asked.sampling.temperature
    return {
        "id": response_id(asked.request_id),
        "object": "response",
        "created_at": task.accepted_at // 1000,
        "completed_at": task.finished_at // 1000 if task.finished_at and status == "completed" else None,
        "status": status,
        "background": background,
        "error": _error(result) if over else None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "max_output_tokens": asked.sampling.max_new_tokens,
        "model": model,
        "output": [item] if over and status in ("completed", "incomplete") else [],
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "reasoning": None,
        "store": True,
        "temperature": profile_of(asked).temperature if temperature is None else temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": asked.sampling.top_p,
        "truncation": "disabled",
        "usage": _response_usage(result) if over and result else None,
        "metadata": metadata_of(task),
    }


def message_item(request_id: str, text: str | None, status: str) -> dict[str, Any]:
    """The output message; without a text it has no content yet."""
    content = [] if text is None else [text_part(text)]
    return {
        "id": message_id(request_id),
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def chat_document(task: Task, model: str) -> dict[str, Any]:
    """A ``ChatCompletion`` of a task that has an answer."""
    assert task.result is not None
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "finish_reason": reason,
            "logprobs": None,
        }
        for index, (text, reason) in enumerate(choices_of(task))
    ]
    return {
        "id": chat_id(task.request.request_id),
        "object": "chat.completion",
        "created": task.accepted_at // 1000,
        "model": model,
        "choices": choices,
        "usage": chat_usage(task.result),
        "metadata": metadata_of(task),
    }


def choices_of(task: Task) -> list[tuple[str, str]]:
    """Texts and why they ended: the winner's, then, where ``n`` was asked for, those of the other samples drawn."""
    result = task.result
    assert result is not None
    chosen = _chosen(result)
    first = (text_of(result), "length" if is_cut(result) or result.status is Status.PARTIAL_DONE else "stop")
    others = [
        (chain.text, _reason(chain))
        for chain in result.reasoning
        if chain.role is not Role.REVIEW and chain is not chosen and chain.finish_reason in _DRAWN
    ]
    return [first, *others][: task.request.sampling.n or 1]


def chat_usage(result: Result) -> dict[str, Any]:
    """Of all samples together."""
    usage = result.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _response_usage(result: Result) -> dict[str, Any]:
    usage = result.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _chosen(result: Result) -> Chain | None:
    return next((chain for chain in result.reasoning if chain.sample_index == result.chosen_sample), None)


def _reason(chain: Chain) -> str:
    return "length" if chain.finish_reason is FinishReason.LENGTH else "stop"


def _error(result: Result | None) -> dict[str, str] | None:
    if result is None or result.status is not Status.FAILED:
        return None
    error = result.error
    message = f"{error.code}: {error.message}" if error else "it has ended without an answer"
    return {"code": "server_error", "message": message}


def _votes(result: Result) -> str:
    """Best first, as many as have room."""
    told = [
        {"answer": first_bytes(vote.answer, _SHORT), "count": vote.count, "score": vote.score}
        for vote in result.votes
    ]
    while len(text := json_line(told).decode()) > LONGEST_TEXT:
        told.pop()
    return text
