"""Encoding ahead: while one model is clustered, one low-priority process encodes the texts of the models to come."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import RLock
from typing import IO

from traube._core import stopping
from traube._core.errors import TraubeError, describe_error
from traube._core.progress import Progress
from traube._pipeline.executors import ProcessExecutor, cores
from traube._pipeline.executors.loky import start_processes
from traube._pipeline.request import Request
from traube._pipeline.run import encode
from traube._pipeline.survey import plan_stored
from traube._pipeline.validation.findings import refuse_stored
from traube._pipeline.workbench import Workbench
from traube._storage import Storage, open_storage
from traube._storage.costs import get_cost
from traube.models import load_model
from traube.tasks.stored import read_ingested
from traube.tasks.task import Stage

logger = logging.getLogger(__name__)
SECONDS = 0.5  # between two checks of the progress
FEW = 200  # texts, which are clustered and encoded before the process has imported torch
NICENESS = 5  # a third of the others' weight; more would leave it nothing beside other people's processes


@contextmanager
def encode_ahead(storage: Storage, requests: Iterable[Request]) -> Iterator[Callable[[int, Progress], None]]:
    """Encode the texts of several requests of one model each, in their order, until the block ends.

    Yields a function that waits for the encoding of the request at a position; call that function before evaluating
    the request. A text that could not be encoded is met again by that run, which reports the error. Few texts are left
    to the runs.
    """
    needed, n_texts = {}, 0
    for i, request in enumerate(requests):
        model = load_model(request.models[0], precision=request.protocol.precision)
        if not model.weight_bytes:
            continue
        if absent := [task for task in request.tasks if get_cost(storage, task, model.fingerprint) is None]:
            needed[i] = request
            n_texts += sum(len(read_ingested(storage, task, "corpus")) for task in absent)
    if n_texts <= FEW:
        yield lambda position, progress: None
        return
    with NamedTemporaryFile("r", prefix="traube-") as report:
        process = start_processes(1)
        try:
            submit = partial(process.submit, _encode, storage.folder, report.name)
            encodings = {i: submit(request) for i, request in needed.items()}
            yield partial(_wait, encodings, report)
        finally:
            process.shutdown(kill_workers=True)


def _wait(encodings: Mapping[int, Future[None]], report: IO[str], position: int, progress: Progress) -> None:
    if (encoding := encodings.get(position)) is None:
        return
    seen = total = 0
    while not wait([encoding], SECONDS).done:
        stopping.check()
        report.seek(0)
        if numbers := report.read().split():
            encoded, of = map(int, numbers)
            if of != total or encoded < seen:
                progress.total("texts", of)
                seen, total = 0, of
            progress.done("texts", encoded - seen)
            seen = encoded
    if error := encoding.exception():
        logger.warning("texts could not be encoded ahead: %s", describe_error(error))


def _encode(folder: Path, report: str, request: Request) -> None:
    """Encode what a request needs, in a process of its own; write how many texts are encoded, of how many, to a file."""
    os.nice(max(0, NICENESS - os.nice(0)))
    import torch
    from tqdm import tqdm  # type: ignore[import-untyped]

    torch.set_num_threads(cores())
    tqdm.set_lock(RLock())  # tqdm's own lock is shared by processes, and a killed process leaves it locked
    encoded = total = 0

    def say(stage: str, amount: int) -> None:
        nonlocal encoded
        encoded += amount
        Path(report).write_text(f"{encoded} {total}", encoding="utf-8")

    def begin(stage: str, amount: int) -> None:
        nonlocal encoded, total
        encoded, total = 0, amount
        say(stage, 0)

    executor, storage, (name,) = ProcessExecutor(), open_storage(folder), request.models
    executor.yields = True
    model = load_model(name, precision=request.protocol.precision)
    for task in request.tasks:
        with suppress(TraubeError), Workbench(storage, executor).hold(task, name, Stage.EMBEDDINGS) as workbench:
            refuse_stored(storage, task)
            plan = plan_stored(replace(request, tasks=[task]), model, storage).only(Stage.EMBEDDINGS)
            for _ in encode(plan, workbench, Progress(begin, say)):
                pass
