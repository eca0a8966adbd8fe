"""Lists as a priority level of API Priority and Fairness lets them through: some at a time, some in a queue, a 429 for the others."""

import asyncio
import contextlib


class Turns:
    """Each list takes `hold_s` of one of `seats`, however large it is here; `queue` more may wait."""

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
