"""A subscription: what devices and processes do, each second."""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple

from google.protobuf.message import Message

from . import control_pb2 as control
from ._answer import Loss
from ._connection import Connection
from ._errors import ConnectionLost

Thing = Dict[str, Any]


class Live(NamedTuple):
    """How it is at `time_ns`: all devices and processes, as dicts with the fields of LiveReply in control.proto.
    `states` and `calls` are those of the last `span_ns`; those of a process that did nothing are 0."""
    time_ns: int
    span_ns: int
    devices: List[Thing]
    processes: List[Thing]
    #: processes left out for lack of room
    left_out: int
    losses: List[Loss]


def _thing(message: Message) -> Thing:
    said: Thing = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if isinstance(value, Message):
            said[field.name] = _thing(value)
        elif field.message_type:  # repeated
            said[field.name] = [_thing(part) for part in value]
        else:
            said[field.name] = value
    return said


_NOTHING = _thing(control.LiveReply.Calls())
_NO_STATES = _thing(control.LiveReply.States())


def _rest(thing: Thing) -> Thing:
    """It was not in the last message: nothing of it has changed, and it did nothing."""
    rested = dict(thing, calls=dict(_NOTHING))
    if "states" in thing:
        rested["states"] = dict(_NO_STATES)
    if "use" in thing:
        rested["use"] = [dict(use, states=dict(_NO_STATES)) for use in thing["use"]]
        rested["stream"], rested["streams_left_out"] = [], 0
        rested["lost"] = 0
    return rested


class Subscription:
    """Iterates over Live, one a second, until it is closed. Who is slow misses some; a program that reads nothing for
    long is disconnected, and its next read raises ConnectionLost, as it does when the daemon ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._devices: Dict[Any, Thing] = {}
        self._processes: Dict[int, Thing] = {}
        self._open = True
        connection.send(subscribe=control.SubscribeRequest())

    def __iter__(self) -> Iterator[Live]:
        return self

    def __next__(self) -> Live:
        if not self._open:
            raise StopIteration
        try:
            reply = self._connection.receive()
            if reply.WhichOneof("body") != "live":
                raise ConnectionLost("The server on this socket is not tracesmithd")
        except BaseException:
            self.close()
            raise
        return self._apply(reply.live)

    def _apply(self, live: control.LiveReply) -> Live:
        devices = {(device.device, device.uuid): _thing(device) for device in live.device}
        processes = {process.id: _thing(process) for process in live.process}
        if not live.whole:
            for old, new in ((self._devices, devices), (self._processes, processes)):
                for key, thing in old.items():
                    if key not in new:
                        new[key] = _rest(thing)
            for gone in live.gone:
                processes.pop(gone, None)
        self._devices, self._processes = devices, processes
        losses = [Loss(loss.reason, loss.count, loss.text, loss.noun, loss.time_ns, loss.said) for loss in live.loss]
        return Live(live.time_ns, live.span_ns, [devices[key] for key in sorted(devices)],
                    [processes[key] for key in sorted(processes)], live.left_out, losses)

    def close(self) -> None:
        self._open = False
        self._connection.close()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()
