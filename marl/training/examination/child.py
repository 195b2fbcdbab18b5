"""The process that measures while a run trains in another one: ``python -m marl.training.examination.child``.

It reads a ``Setup`` from its standard input, says what it will do, and then measures weights, one message after the other,
until the run hangs up. Its standard output carries the answers, so whatever an env prints goes to the standard error.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")
LOOK_S = 1.0


def send(pipe: BinaryIO, message: bytes) -> None:
    """One message: its length, then its bytes."""
    pipe.write(LENGTH.pack(len(message)))
    pipe.write(message)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes | None:
    """The next message; None when the other side has hung up."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    message = pipe.read(length)
    return message if len(message) == length else None


class Desk:
    """An examiner with policies of its own, into which the weights of the run are put."""

    def __init__(self, setup: Any) -> None:
        from marl.policies.build import build_policies
        from marl.rollout.known_names import register_names
        from marl.training.build import make_pool
        from marl.training.examiner import Examiner
        from marl.trust import under

        self._trust = under(setup.rollout.trust)
        self._trust.__enter__()  # to the end of the process
        register_names(setup.rollout)
        # Matches are played here: the run's own workers are busy.
        alone = setup.rollout.config.model_copy(update={"num_workers": 0, "collection": "auto", "pool": "auto"})
        self.setup = replace(setup, rollout=replace(setup.rollout, config=alone))
        self.examiner = Examiner(self.setup, setup.scenario.exploitability)
        self.policies = build_policies(self.setup.policies, self.setup.task.kinds)
        self.pool = make_pool(self.setup, self.policies)

    def measure(self, weights: Mapping[str, Any], number: int) -> dict[str, Any]:
        began = time.perf_counter()
        for name, policy in self.policies.items():
            policy.fit(weights[name])
            policy.set_weights(weights[name])
        found = self.examiner.measure(self.policies, self.pool, number).as_json()
        return {**found, "seconds": time.perf_counter() - began}


def main() -> None:
    answers = _own_output()
    # Ctrl-C reaches all processes of a terminal; the run alone decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_run, args=(os.getppid(),), daemon=True).start()
    import torch

    torch.set_num_threads(1)
    desk: Desk | None = None
    while True:
        message = receive(sys.stdin.buffer)
        if message is None:
            return
        try:
            if desk is None:
                desk = Desk(pickle.loads(message))  # from the run that started this process, through its own pipe
                effort = desk.examiner.choice.first.effort
                answer = ("ready", {"note": desk.examiner.note, "seconds": effort.seconds})
            else:
                answer = ("measured", desk.measure(*pickle.loads(message)))
        except Exception as error:
            answer = _refusal(error)
        send(answers, pickle.dumps(answer))


def _own_output() -> BinaryIO:
    """The standard output for answers alone: what is printed, by Python or by libraries, goes to the standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _refusal(error: Exception) -> tuple[str, dict[str, Any]]:
    from marl.errors import UserError

    if isinstance(error, UserError):
        return "refused", {"error": error}
    return "failed", {"text": traceback.format_exc()}


def _end_with_the_run(parent: int) -> None:
    """A run that was killed closes nothing, and a measurement may take minutes without looking at the pipe."""
    while hasattr(os, "getppid") and os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(0)


if __name__ == "__main__":
    main()
