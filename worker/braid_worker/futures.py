"""Futures for calls to other models from event loops."""

import asyncio

import _braid_worker


class CallFuture(asyncio.Future):
    """The future of one call. Cancelling it cancels the call."""

    call_id = 0

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(loop=loop)

    def cancel(self, msg=None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            _braid_worker.cancel_call(self.call_id)
        return cancelled


def settle(future: CallFuture, value) -> None:
    """Completes a future, unless it is already done or cancelled."""
    if not future.done():
        future.set_result(value)
