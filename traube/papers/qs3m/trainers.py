"""QS3M: similarities for a query (Kashyapi & Dietz, JCDL 2022, section 3).

A frozen encoder gives vectors of passages and queries; the network that compares two passages for a query is trained,
and saved beside the encoder in `similarity/`.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator
from typing_extensions import override

from traube._core import paths
from traube._core.errors import Invalid, TooFew
from traube._core.files import write_text
from traube._pipeline.workbench import Workbench
from traube.models._base import Encoder
from traube.models._similarity import (
    CONFIG,
    FOLDER,
    WEIGHTS,
    Query,
    SimilarityConfig,
    TrainedSimilarity,
    find_networks,
    load_network,
    make_network,
    page_similarities,
)
from traube.models._transformer import Transformer
from traube.models._vectors import Dense
from traube.models._vetting import VettedFolder
from traube.papers.qs3m.pairs import ItemPairs, all_pairs, balanced_pairs
from traube.tasks._sections import SEPARATOR
from traube.tasks._task import Split, Task
from traube.training._loop import Examples, Loop, ValidatedRecipe
from traube.training._trainer import LEARNED, Trainer


class Qs3mRecipe(ValidatedRecipe):
    """Recipe of the training of a similarity."""

    network: Literal["qs3m", "qss", "attention"] = Field(
        "qs3m", description="qss: the query scales dimensions; attention: over the sentences of a passage"
    )
    query: Query = Field("text", description="text of the split's query, the mean of its passages, or none")
    begin: Literal["identity", "random"] = Field(
        "identity", description="first weights; identity: it begins as a distance of the encoder's vectors"
    )
    loss: Literal["bce", "mse"] = Field("bce", description="bce, of a sigmoid, or mse, of a ReLU")
    projection: Literal["printed", "coded"] = Field(
        "printed", description="printed: a ReLU after each layer, as in the paper; coded: after both, as in its code"
    )
    pairs: Literal["balanced", "all"] = Field("balanced", description="of a page: as many same as different, or all")
    masked: bool = Field(True, description="attention: absent sentences get none; off, as in the paper's code")
    symmetric: bool = Field(True, description="compare both orders of a pair, and take the mean")
    start: str | None = Field(None, description="attention: the checkpoint of a qs3m that its head begins with")
    split_set: str = Field("default", description="whose train and validation splits are learned from")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.query == "none" and self.network != "qs3m":
            raise ValueError(f"query: {self.network} compares for a query; none goes with qs3m alone")
        if self.start is not None and self.network != "attention":
            raise ValueError("start: attention alone begins with another checkpoint")
        return self


class Qs3m(Trainer[Qs3mRecipe]):
    """Trainer on pairs of passages, which belong to one subtopic or not.

    `best` has the highest AUC on the validation splits (all pairs of a page, mean over pages).
    """

    name = "qs3m"
    section = "Kashyapi & Dietz 2022, section 3"
    learns_from = "splits"
    watched = "validation_auc"
    in_name = ("seed", "network", "query", "split_set")
    defaults = Qs3mRecipe(epochs=12, batch=256, learning_rate=1e-4, patience=3)
    # As in the paper's code. From random weights 21,000 pairs teach next to nothing: AUC .51 on
    # articles of test200 where the encoder's own distance has .65.
    paper: ClassVar[Mapping[str, Any]] = {
        "epochs": 3, "batch": 32, "learning_rate": 1e-5, "patience": 0, "begin": "random", "loss": "mse",
        "projection": "coded", "masked": False, "symmetric": False,
    }  # fmt: skip

    @property
    @override
    def variant(self) -> str:
        recipe, usual = self.recipe, self.defaults
        query = "no_query" if recipe.query == "none" else recipe.query
        parts = ((recipe.network, usual.network), (query, usual.query), (recipe.split_set, usual.split_set))
        return "".join(f".{value}" for value, default in parts if value != default)

    def list_subsets(self, task: Task) -> list[str]:
        """Return the subsets of the usual split set whose texts the training sees.

        One fold learns from texts that another fold tests, and a model that has seen a task's test texts is marked.
        """
        if self.recipe.split_set == "default":
            return list(LEARNED)
        usual = task.splits[task.splits["split_set"] == "default"]
        learned = self.select_labeled_rows(task, (), self.recipe.split_set)["text_id"]
        return sorted(usual.loc[usual["text_id"].isin(learned), "part"].unique())

    def select_texts(self, task: Task, extra: Sequence[str]) -> list[str]:
        """Return the texts of the train and validation splits, and their queries if the recipe uses them."""
        seen = self.select_labeled_rows(task, extra, self.recipe.split_set)
        if self.recipe.query != "text":
            wanted = seen["text_id"]
        elif seen["query_id"].isna().any():
            raise Invalid(
                f"{task.name}: split set '{self.recipe.split_set}': there are splits without a query; "
                "set query=passages or query=none"
            )
        else:
            wanted = pd.concat([seen["text_id"], seen["query_id"]])
        return task.corpus.loc[task.corpus["text_id"].isin(wanted), "text"].tolist()

    @override
    def make_network(self, base: Transformer) -> "Comparer":
        encoder = base.card.model_copy(update={"max_length": self.recipe.max_length or base.card.max_length})
        return Comparer(Transformer(encoder, base.device), self.recipe)

    @override
    def make_examples(self, network: "Comparer", task: Task, texts: Sequence[str]) -> "PagePairs":
        return PagePairs(network, task, texts, self.recipe)

    @override
    def make_learner(self, network: "Comparer", examples: "PagePairs") -> Any:
        import torch
        from torch import nn
        from torch.nn import functional

        device, squared = network.encoder.device, self.recipe.loss == "mse"
        loss: Callable[..., Any] = functional.mse_loss if squared else functional.binary_cross_entropy_with_logits

        class Comparing(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.module = network.module
                self.vectors = torch.from_numpy(examples.vectors).to(device)

            def forward(self, batch: dict[str, Any]) -> torch.Tensor:
                query = None if batch["query"] is None else torch.from_numpy(batch["query"]).to(device)
                gold = torch.from_numpy(batch["same"].astype(np.float32)).to(device)
                compare = self.module.forward if squared else self.module.logits
                return loss(compare(self.vectors[batch["first"]], self.vectors[batch["second"]], query), gold)

        return Comparing()

    def _identity(self, task: Task, base: Transformer, texts: Sequence[str]) -> dict[str, Any]:
        identity = super()._identity(task, base, texts)
        if self.recipe.start:
            identity["start_fingerprint"] = TrainedSimilarity.at(paths.checkpoints() / self.recipe.start).fingerprint
        return identity

    def measure(self, loop: Loop, step: int) -> float:
        """Return the AUC over all pairs of a validation page, mean over pages."""
        from traube.papers.qs3m.auc import page_auc

        examples, values = loop.examples, []
        assert isinstance(examples, PagePairs)
        for split in examples.pages(loop.task, "validation"):
            assert split.labels is not None
            X, query = examples.vectors[split.rows], examples.query(split)
            similarities = page_similarities(loop.network.module, self.recipe.symmetric, X, query)
            values.append(page_auc(similarities, split.labels))
        if not np.isfinite(values).any():
            raise TooFew(f"{loop.task.name}: no validation page has pairs of the same and of different groups")
        return float(np.nanmean(values))


class Comparer:
    """A frozen encoder and the network that compares, which is trained."""

    def __init__(self, base: Transformer, recipe: Qs3mRecipe) -> None:
        import torch

        self.base = base
        self.recipe = recipe
        self.encoder: Encoder = find_networks()[recipe.network].read(base)
        self.dimensions = int(base.network.get_embedding_dimension())
        torch.manual_seed(recipe.seed)
        self.module = make_network(self.config)
        if recipe.begin == "identity":
            self.module.begin_as_distance()
        if recipe.start:
            other = TrainedSimilarity.at(paths.checkpoints() / recipe.start)
            wanted = self.config.model_copy(update={"network": "qs3m"})
            same = ("network", "query", "dimensions", "projection", "output")
            if any(getattr(other.config, name) != getattr(wanted, name) for name in same):
                raise Invalid(f"recipe: start: {recipe.start} is no qs3m with the same query, projection and loss")
            self.module.head = load_network(other)

    @property
    def config(self) -> SimilarityConfig:
        """Configuration of the network and its encoder, as the checkpoint stores it."""
        return SimilarityConfig(
            dimensions=self.dimensions,
            output="relu" if self.recipe.loss == "mse" else "sigmoid",
            **self.recipe.model_dump(include={"network", "query", "projection", "masked", "symmetric"}),
            **self.base.card.model_dump(include={"prompt", "max_length", "pooling", "precision"}),
        )

    def vectors(self, texts: Sequence[str]) -> Dense:
        """Return the encoder's vectors, float32 [n, m], from the cache if they are in it."""
        return np.asarray(Workbench.at(paths.home()).vectors_of_texts(texts, self.encoder).load())

    def eval(self) -> None:
        """Switch the network to evaluation mode."""
        self.module.eval()

    def save(self, folder: str) -> None:
        """Write a checkpoint: the encoder's files as they are, and the similarity."""
        from safetensors.torch import save_file

        out = Path(folder)
        for path in VettedFolder.at(self.base.folder).files:
            target = out / path.relative_to(self.base.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (out / FOLDER).mkdir(parents=True, exist_ok=True)
        write_text(out / FOLDER / CONFIG, self.config.model_dump_json(indent=2))
        weights = {name: values.detach().cpu().contiguous() for name, values in self.module.state_dict().items()}
        save_file(weights, out / FOLDER / WEIGHTS)


class PagePairs(Examples):
    """Pairs of passages of a page, each with its target (one group or not) and the page's query.

    Where labels are paths of sections, pairs of a section and one above it are left out.
    """

    def __init__(self, network: Comparer, task: Task, texts: Sequence[str], recipe: Qs3mRecipe) -> None:
        self.recipe = recipe
        self.vectors = network.vectors(texts)  # float32 [n, m], a row for each text
        self.dimensions = network.dimensions  # of a query's vector, which stands first in a row
        self.row_of = {text: row for row, text in enumerate(texts)}
        splits = self.pages(task, "train")
        balanced = partial(balanced_pairs, seed=recipe.seed)
        draw: Callable[..., ItemPairs] = balanced if recipe.pairs == "balanced" else all_pairs
        drawn = [draw(split, separator=SEPARATOR if split.level == "hier" else None) for split in splits]
        self.first = np.concatenate([split.rows[p.first] for split, p in zip(splits, drawn, strict=True)])
        self.second = np.concatenate([split.rows[p.second] for split, p in zip(splits, drawn, strict=True)])
        self.same = np.concatenate([p.same for p in drawn])
        self.page = np.repeat(np.arange(len(splits)), [len(p) for p in drawn])
        queries = [self.query(split) for split in splits]
        self.queries = None if recipe.query == "none" else np.stack([query for query in queries if query is not None])
        if not len(self.same):
            raise TooFew("there are no pairs: no train split has two texts of one group and one of another")
        super().__init__(len(self.same), recipe.seed)

    def pages(self, task: Task, subset: str) -> list[Split]:
        """Return the splits of a subset; their rows are those of `vectors`."""
        chosen = replace(task, rows=task.splits[task.splits["part"] == subset].assign(part="test"))
        rows = np.array([self.row_of.get(text, -1) for text in task.texts], dtype=np.int64)
        return [
            Split(s.split, s.level, s.items, rows[s.rows], s.labels, None if s.query is None else int(rows[s.query]))
            for s in chosen.test_splits(self.recipe.split_set)
        ]

    def query(self, split: Split) -> Dense | None:
        """Return the vector of a split's query, float32 [d]."""
        if self.recipe.query == "none":
            return None
        row = self.vectors[split.rows].mean(axis=0) if self.recipe.query == "passages" else self.vectors[split.query]
        return row[: self.dimensions]

    def make(self, example: int, rng: np.random.Generator) -> tuple[int, bool]:
        """Return a pair's number, and whether its passages change places: their order means nothing."""
        return example, bool(rng.random() < 0.5)

    def collate(self, made: list[tuple[int, bool]]) -> dict[str, Any]:
        """Return a batch of pairs.

        It holds the rows of the first and of the second passages, int64 [b]; the queries' vectors, float32 [b, d] or
        None; and which pairs belong to one group, bool [b].
        """
        numbers, swapped = (np.array(values) for values in zip(*made, strict=True))
        first, second = self.first[numbers], self.second[numbers]
        one, other = np.where(swapped, second, first), np.where(swapped, first, second)
        query = None if self.queries is None else self.queries[self.page[numbers]]
        return {"first": one, "second": other, "query": query, "same": self.same[numbers]}


TRAINER = Qs3m
