"""The program's side: runs the code, answers calls with plain values. It never holds a test or an expected value."""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import types
from typing import Any

from pipeline.sandbox.inside import jail, wire

MODULE = "solution"
_RESERVE = 1 << 20
_builtins: Any = builtins


def main(job: dict[str, Any]) -> None:
    """Run the job's code, then answer calls until the channel ends.

    The job: ``code``, ``limits``, ``channel`` (descriptor) and ``script`` (run as ``__main__``, answer no calls).
    """
    jail.enter(job["limits"])
    channel: int = job["channel"]
    code, script = job["code"], job["script"]
    job.clear()
    reserve = [bytearray(_RESERVE)]  # what an answer is made of when the program has eaten all memory
    _builtins.exit = _builtins.quit = sys.exit  # the interpreter's own come with site, which is not loaded
    module = types.ModuleType("__main__" if script else MODULE)
    sys.modules[module.__name__] = module
    outcome = _attempt(reserve, lambda: _load(code, module, script))
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    wire.send(channel, outcome)
    if script or outcome[0] != "value":
        # Not sys.exit: what the program left for the interpreter's end shall not run.
        os._exit(0 if outcome[0] in ("value", "exit") and outcome[1] in (None, 0) else 1)
    objects: list[Any] = []
    while True:
        try:
            request = wire.receive(channel)
        except wire.ChannelClosedError:
            os._exit(0)
        answer = _attempt(reserve, lambda request=request: _answer(request, module, objects))
        try:
            wire.send(channel, answer)
        except wire.CannotTravelError as error:
            wire.send(channel, ["stays", str(error)])


def _load(code: str, module: types.ModuleType, script: bool) -> Any:
    exec(compile(code, f"<{MODULE}>", "exec"), module.__dict__)
    if script:
        return None
    kinds = {name: callable(value) for name, value in module.__dict__.items() if not name.startswith("__")}
    own = [
        name
        for name, value in module.__dict__.items()
        if isinstance(value, types.FunctionType) and value.__module__ == MODULE
    ]
    return {"names": kinds, "functions": own}


def _answer(request: dict[str, Any], module: types.ModuleType, objects: list[Any]) -> Any:
    def handle_of(value: Any) -> int | None:
        return next((number for number, known in enumerate(objects) if known is value), None)

    target: Any = module if request["on"] is None else objects[request["on"]]
    value = (
        getattr(target, request["name"]) if request["on"] is not None else module.__dict__[request["name"]]
    )
    if not request["call"]:
        return {"callable": True} if callable(value) else {"value": wire.encode(value, handle_of)}
    args, kwargs = (
        wire.decode(request["args"], objects.__getitem__),
        wire.decode(request["kwargs"], objects.__getitem__),
    )
    result = value(*args, **kwargs)
    if request["keep"]:
        objects.append(result)
        return {"value": ["handle", len(objects) - 1]}
    # A function that answers nothing may have worked in place.
    changed = [wire.encode(item, handle_of) for item in args] if result is None else None
    return {"value": wire.encode(result, handle_of), "args": changed}


def _attempt(reserve: list[bytearray], action: Any) -> list[Any]:
    try:
        return ["value", action()]
    except wire.CannotTravelError as error:
        return ["stays", str(error)]
    except SystemExit as error:
        return ["exit", error.code if error.code is None or isinstance(error.code, int) else 1]
    except MemoryError as error:
        reserve.clear()
        error.__traceback__ = None
        return ["raised", "MemoryError", "", None]
    except BaseException as error:
        return _raised(error)


def _raised(error: BaseException) -> list[Any]:
    try:
        text = str(error)[:300]
        number = error.errno if isinstance(error, OSError) else None
    except BaseException:
        text, number = "", None
    known = (kind.__name__ for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind)
    return [
        "raised",
        next(known, "Exception"),
        f"{type(error).__name__}: {text}" if text else type(error).__name__,
        number,
    ]
