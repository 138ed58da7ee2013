"""Pauses that can be cut short, all at once."""

import asyncio

from epp.discovery.source import Pause

__all__ = ["Alarm"]


class Alarm:
    """`ring` makes every loop look at once that waits with a pause of this alarm."""

    def __init__(self) -> None:
        self._rings = 0
        self._next = asyncio.Event()

    def ring(self) -> None:
        """End the pauses of this moment, and the next one of every loop that is not in a pause."""
        self._rings += 1
        self._next.set()
        self._next = asyncio.Event()

    def new_pause(self) -> Pause:
        """What one loop waits with: True when it was rung for, meanwhile or since its last pause."""
        answered = self._rings

        async def pause(seconds: float | None) -> bool:
            nonlocal answered
            try:
                async with asyncio.timeout(seconds):
                    if answered == self._rings:
                        await self._next.wait()
            except TimeoutError:
                return False
            answered = self._rings
            return True

        return pause
