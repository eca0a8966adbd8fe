"""Limits lists as a priority level of API Priority and Fairness does: some lists run, some wait in a queue, and the others get 429."""

import asyncio
import contextlib


class Turns:
    """Each list occupies one of `seats` for `hold_s`, whatever its size. `queue` more lists may wait."""

    def __init__(self, seats, queue, hold_s):
        self.free, self.waiting, self.queue, self.hold_s = asyncio.Semaphore(seats), 0, queue, hold_s
        self.granted = self.refused = 0

    def has_room(self):
        room = not self.free.locked() or self.waiting < self.queue
        self.refused += not room
        return room

    @contextlib.asynccontextmanager
    async def taken(self):
        self.waiting += 1
        try:
            await self.free.acquire()
        finally:
            self.waiting -= 1
        try:
            await asyncio.sleep(self.hold_s)
            self.granted += 1
            yield
        finally:
            self.free.release()
