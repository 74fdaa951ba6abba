"""Encoding ahead: while a model is clustered, the texts of those to come are encoded by what would be idle, a core now
and then or a GPU. One process does it, after all others.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from traube.core import stopping
from traube.core.errors import TraubeError
from traube.core.progress import Progress
from traube.models import load_model
from traube.pipeline.executors import cores
from traube.pipeline.executors.loky import start_processes
from traube.pipeline.plan import Plan, Request
from traube.pipeline.run import run
from traube.pipeline.survey import survey_stored
from traube.pipeline.validation import refuse_stored
from traube.pipeline.workbench import Workbench
from traube.storage import Storage, open_storage
from traube.tasks.task import Stage

SECONDS = 0.5  # between two looks at how far it is
NICENESS = 5  # a third of the weight of others: more would leave it nothing beside other people's processes


@contextmanager
def encode_ahead(storage: Storage, requests: Iterable[Request]) -> Iterator[Callable[[int, Progress], None]]:
    """Have the texts of several requests of one model each encoded, in their order, until the block ends.

    Yields what waits for the encoding of the request at a position; whoever evaluates it calls that first. What could
    not be encoded, that run meets again, and says why.
    """
    needed = {i: request for i, request in enumerate(requests) if load_model(request.models[0]).weight_bytes}
    if not needed:
        yield lambda position, progress: None
        return
    with NamedTemporaryFile("r", prefix="traube-") as told:
        process = start_processes(1)
        try:
            encodings = {
                i: process.submit(_encode, storage.folder, request, told.name) for i, request in needed.items()
            }
            yield partial(_wait, encodings, told)
        finally:
            process.shutdown(kill_workers=True)


def _wait(encodings: Mapping[int, Future[None]], told: IO[str], position: int, progress: Progress) -> None:
    seen = total = 0
    while (encoding := encodings.get(position)) and not wait([encoding], SECONDS).done:
        stopping.check()
        told.seek(0)
        if numbers := told.read().split():
            encoded, of = map(int, numbers)
            if of != total:
                progress.total("texts", of)
                seen, total = 0, of
            progress.done("texts", encoded - seen)
            seen = encoded


def _encode(folder: Path, request: Request, told: str) -> None:
    """Encode what a request needs, in a process of its own; say in a file how many texts are encoded, and of how many."""
    import torch

    os.nice(NICENESS - os.nice(0))
    torch.set_num_threads(cores())
    encoded = total = 0

    def say(stage: str, amount: int) -> None:
        nonlocal encoded
        encoded += amount
        Path(told).write_text(f"{encoded} {total}", encoding="utf-8")

    def begin(stage: str, amount: int) -> None:
        nonlocal encoded, total
        encoded, total = 0, amount

    storage, (name,) = open_storage(folder), request.models
    model = load_model(name, precision=request.protocol.precision)
    for task in request.tasks:
        with suppress(TraubeError), storage.hold(task, name, Stage.EMBEDDINGS):
            refuse_stored(storage, task)
            plan = Plan.of(replace(request, tasks=[task]), survey_stored([task], model, storage))
            for _ in run(plan.only(Stage.EMBEDDINGS), Workbench(storage), Progress(begin, say)):
                pass
