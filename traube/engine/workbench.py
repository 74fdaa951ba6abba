"""The one place that answers: this task's vectors under this model.

It knows which folder they lie in, and makes those absent.

What is done with them (clusters, scores, figures, a served clustering) does not belong here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from traube.benchmark.plan import not_read
from traube.engine.embed import embed, embed_task
from traube.engine.executors import Executor, ProcessExecutor
from traube.engine.progress import SILENT, Progress
from traube.foundation.disk import make_private
from traube.foundation.hashing import digest
from traube.models import EmbeddingCache, Model, Vectors, fingerprint_on
from traube.store import Manifest, Store
from traube.tasks.task import Task, text_id


@dataclass(frozen=True)
class Workbench:
    """The tasks of a store, vectors of texts, and who does the work.

    Attributes
    ----------
    store : tasks, results, and the matrices of models that are fitted on a corpus
    cache : vectors of all other models, by text
    executor : encodes, reduces, clusters and scores; by default processes of this machine. Whoever
        has it do more than encode ends it
    """

    store: Store
    cache: EmbeddingCache
    executor: Executor = field(default_factory=ProcessExecutor)

    @classmethod
    def at(cls, home: Path, executor: Executor | None = None) -> Self:
        """The workbench whose store and cache lie in a folder, as they do in TRAUBE_HOME."""
        make_private(home)
        return cls(Store(home / "store"), EmbeddingCache(home / "embeddings"), executor or ProcessExecutor())

    def task(self, name: str) -> Task:
        """A stored task, with the card that it was read with.

        Raises
        ------
        TraubeError
            If it has not been read yet, or a file of it is damaged.
        """
        card = self.store.card(name)
        if card is None:
            raise not_read(name)
        return self.store.task(card)

    def manifest(self, name: str) -> Manifest:
        """The versions of a stored task.

        Raises
        ------
        TraubeError
            If it has not been read yet.
        """
        manifest = self.store.manifest(name)
        if manifest is None:
            raise not_read(name)
        return manifest

    def encoded(self, task: Task, model: Model, progress: Progress = SILENT) -> tuple[Vectors, int]:
        """A task's vectors under a model, and how many texts had to be encoded for them. What that took
        is kept.

        Raises
        ------
        TraubeError
            If the task has no test split, the model's weights are not here, or a text cannot be
            encoded.
        """
        matrix = self.store.matrix(task.name, fingerprint_on(model.encoder, task.corpus_version))
        told = partial(self.store.save_cost, task.name, fingerprint_on(model, task.corpus_version))
        return embed_task(task, model, self.cache, matrix, progress, told, self.executor)

    def vectors(self, task: Task, model: Model, progress: Progress = SILENT) -> Vectors:
        """A task's vectors under a model; Vectors [n, d], a row for each text of the corpus.

        Raises what `encoded` does.
        """
        return self.encoded(task, model, progress)[0]

    def vectors_of_texts(self, texts: Sequence[str], model: Model, progress: Progress = SILENT) -> Vectors:
        """The vectors of any texts, to which a corpus-bound model is fitted; Vectors [n, d].

        Raises what `encoded` does.
        """
        corpus = digest([text_id(text) for text in texts])
        matrix = self.store.matrix("texts", digest([model.encoder.fingerprint, corpus]))
        return embed(texts, model, self.cache, matrix, progress, executor=self.executor)[0]
