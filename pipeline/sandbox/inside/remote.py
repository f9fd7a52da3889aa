"""What test code holds in place of the program's functions and classes."""

from __future__ import annotations

import builtins
from contextlib import suppress
from typing import Any, NoReturn, cast

from pipeline.sandbox.inside import wire

_GONE, _BROKEN = "the program ended during the tests", "the program answered what no answer can be"


class ProgramGoneError(BaseException):
    """The program has ended or broken the protocol; not an ``Exception``, so that no test can swallow it."""


class ForeignError(Exception):
    """The program raised an exception of a class of its own."""


class Program:
    """The program in the other sandbox."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self.names: dict[str, bool] = {}
        self.functions: list[str] = []
        self.last_error = ("", None)
        self.taint: str | None = None

    def loaded(self) -> list[Any]:
        """Wait until the program's own top level has run.

        Returns:
            How it ended: ``["value", …]``, ``["raised", kind, text, errno]``, ``["exit", status]``.

        Raises:
            ProgramGoneError: it never said.
        """
        outcome = self._receive()
        match outcome:
            case ["value", {"names": {**names}, "functions": [*functions]}]:
                self.names = {str(name): bool(kind) for name, kind in names.items()}
                self.functions = [str(name) for name in functions]
            case ["exit" | "raised", *_]:
                pass
            case _:
                raise ProgramGoneError(_BROKEN)
        return outcome

    def ask(
        self, on: int | None, name: str, call: bool, args: Any = (), kwargs: Any = None, keep: bool = False
    ) -> Any:
        """Read or call a name of the program, or of an object of it."""
        try:
            request = {
                "on": on,
                "name": name,
                "call": call,
                "keep": keep,
                "args": wire.encode(list(args), _handle_of),
                "kwargs": wire.encode(dict(kwargs or {}), _handle_of),
            }
            wire.send(self._channel, request)
        except wire.CannotTravelError as error:
            return self.refuse(f"{error} (an argument)")
        except wire.ChannelClosedError as error:
            raise ProgramGoneError(_GONE) from error
        outcome = self._receive()
        match outcome:
            case ["value", {"callable": True}]:
                return Function(self, on, name)
            case ["value", {"value": value, **rest}]:
                self._put_back(args, rest.get("args"))
                return Instance(self, self._handle(value)) if keep else self._decode(value)
            case ["stays", text]:
                return self.refuse(str(text))
            case ["exit", *_]:
                raise ForeignError("SystemExit: the program asked to end")
            case ["raised", str(kind), text, number]:
                self.last_error = (kind, number)
                raise _exception(kind, str(text))
            case _:
                raise ProgramGoneError(_BROKEN)

    def refuse(self, text: str) -> NoReturn:
        """Fail the test that runs, even if it catches the error."""
        self.taint = text
        raise wire.CannotTravelError(text)

    def _handle(self, value: Any) -> int:
        match value:
            case ["handle", int(number)]:
                return number
            case _:
                raise ProgramGoneError(_BROKEN)

    def _decode(self, value: Any) -> Any:
        try:
            return wire.decode(value)
        except (wire.ChannelClosedError, RecursionError) as error:
            raise ProgramGoneError(_BROKEN) from error

    def _put_back(self, args: Any, changed: Any) -> None:
        after = cast("list[Any]", changed) if isinstance(changed, list) else []
        for mine, theirs in zip(args, after, strict=False):
            if type(mine) in (list, dict, set, bytearray):
                value = self._decode(theirs)
                if type(value) is type(mine) and value != mine:
                    mine.clear()
                    (mine.extend if type(mine) in (list, bytearray) else mine.update)(value)

    def _receive(self) -> list[Any]:
        try:
            outcome = wire.receive(self._channel)
        except wire.ChannelClosedError as error:
            raise ProgramGoneError(_GONE) from error
        if not isinstance(outcome, list) or not outcome:
            raise ProgramGoneError(_BROKEN)
        return cast("list[Any]", outcome)


class Function:
    """A function of the program: a call runs there, its answer is plain data."""

    def __init__(self, program: Program, on: int | None, name: str) -> None:
        self._program, self._on, self.__name__ = program, on, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program.ask(self._on, self.__name__, True, args, kwargs)


class Class(Function):
    """A class of the program: a call makes an object that stays there."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program.ask(None, self.__name__, True, args, kwargs, True)


class Instance:
    """An object that stays with the program: its methods and plain attributes can be used.

    Comparing it or its truth would be the program's own word, so both fail the test.
    """

    __hash__ = object.__hash__

    def __init__(self, program: Program, number: int) -> None:
        self.__dict__.update(_program=program, _number=number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._program.ask(self._number, name, False)

    def __len__(self) -> int:
        return self._program.ask(self._number, "__len__", True)

    def __getitem__(self, key: Any) -> Any:
        return self._program.ask(self._number, "__getitem__", True, (key,))

    def __iter__(self) -> Any:
        return self._program.ask(self._number, "__iter__", True)

    def __str__(self) -> str:
        return self._program.ask(self._number, "__str__", True)

    def __repr__(self) -> str:
        return self._program.ask(self._number, "__repr__", True)

    def _own_word(self, *_: Any) -> bool:
        return self._program.refuse("an object of the program can not be compared; compare its values")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = _own_word  # pyright: ignore


class Module:
    """The program as a module, for tests that import it."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def __getattr__(self, name: str) -> Any:
        if name not in self._program.names:
            raise AttributeError(f"the program has no {name}")
        return stand_in(self._program, name)


def stand_in(program: Program, name: str) -> Any:
    """What test code gets under a name of the program.

    Only a name in CapWords makes objects that stay: that it is a class must not be the program's own word.
    """
    if not program.names.get(name, False):
        return program.ask(None, name, False)
    cap_words = name[:1].isupper() and not name.isupper() and "_" not in name
    return (Class if cap_words else Function)(program, None, name)


def _handle_of(value: Any) -> int | None:
    return value.__dict__["_number"] if type(value) is Instance else None


def _exception(kind: str, text: str) -> Exception:
    known: Any = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        with suppress(TypeError):  # UnicodeDecodeError and its like want more than a text
            return known(text)
    return ForeignError(text)
