"""The one place that answers for a task's vectors under a model. Those that are absent are made."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from traube._core.disk import make_private
from traube._core.hashing import digest
from traube._core.progress import SILENT, Progress
from traube._pipeline.embed import embed, embed_task
from traube._pipeline.executors import Executor, ProcessExecutor
from traube._storage import Lease, Storage, open_storage
from traube.models import Model, Vectors
from traube.tasks.stored import Manifest, get_manifest, not_read, read_task
from traube.tasks.task import Task, text_id


@dataclass(frozen=True)
class Given:
    """A task that is not read from the storage, with its vectors (n_texts, n_dimensions) if they are not computed."""

    task: Task
    vectors: Vectors | None = None


@dataclass(frozen=True)
class Workbench:
    """The tasks of a storage, vectors of texts, and the executor that does the work."""

    storage: Storage  # tasks and results
    # encodes, reduces, clusters and scores; a caller that uses it for more than encoding closes it
    executor: Executor = field(default_factory=ProcessExecutor)
    given: Mapping[str, Given] = field(default_factory=dict)  # tasks in place of the storage's, by name
    lease: Lease | None = None  # of the stage at work; None where nobody else can compute its cells

    @classmethod
    def at(cls, home: Path, executor: Executor | None = None) -> Self:
        """Return the workbench whose store lies in a folder, as it does in TRAUBE_HOME."""
        make_private(home)
        return cls(open_storage(home), executor or ProcessExecutor())

    @contextmanager
    def hold(self, task: str, model: str, stage: str) -> Iterator[Self]:
        """Lend the workbench under the lease of a stage, once nobody else holds it."""
        with self.storage.hold(task, model, stage) as lease:
            yield replace(self, lease=lease)

    def task(self, name: str) -> Task:
        """Return a stored task, with the card that it was read with."""
        return self.given[name].task if name in self.given else read_task(self.storage, name)

    def manifest(self, name: str) -> Manifest:
        """Return the versions of a stored task."""
        manifest = get_manifest(self.storage, name)
        if manifest is None:
            raise not_read(name)
        return manifest

    def encoded(self, task: Task, model: Model, progress: Progress = SILENT) -> tuple[Vectors, int]:
        """Return a task's vectors under a model, and the number of texts that had to be encoded.

        Raises
        ------
        TraubeError
            If the task has no test split, the model's weights are not here, or a text cannot be encoded.
        """
        given = self.given.get(task.name)
        if given is not None and given.vectors is not None:
            return given.vectors, 0
        return embed_task(task, model, self.storage, progress, self.executor)

    def vectors(self, task: Task, model: Model, progress: Progress = SILENT) -> Vectors:
        """Return a task's vectors under a model; Vectors [n, d], a row for each text. Raises what `encoded` does."""
        return self.encoded(task, model, progress)[0]

    def vectors_of_texts(self, texts: Sequence[str], model: Model, progress: Progress = SILENT) -> Vectors:
        """Return the vectors [n, d] of any texts, to which a corpus-bound model is fitted. Raises what `encoded` does."""
        corpus_version = digest([text_id(text) for text in texts])
        return embed(texts, model, self.storage, corpus_version, progress, self.executor)[0]
