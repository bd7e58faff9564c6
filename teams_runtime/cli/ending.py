"""Signals that ask the program to end, made into an exception, so that what it started ends with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()))


class Ended(BaseException):
    """A signal asked this process to end.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise `Ended` in the block at the first signal; the ones after it cannot disturb the ending.

    A signal that the caller ignores (`nohup`) stays ignored. Outside the main thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    heard = [number for number, handler in before.items() if handler != signal.SIG_IGN]

    def end(number: int, _frame: FrameType | None) -> None:
        for one in heard:
            signal.signal(one, signal.SIG_IGN)
        raise Ended(number)

    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
