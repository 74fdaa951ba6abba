"""QS3M: similarities that are learned for a query, on a frozen encoder."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from tests.errors import Refusal, refused
from traube._core import paths
from traube._core.errors import Invalid, TooFew, Unknown
from traube._pipeline.workbench import Workbench
from traube.models import load_model
from traube.models.transformer import Transformer
from traube.models.vetting import VettedFolder
from traube.papers.qs3m.trainers import Qs3m
from traube.tasks.sections import Page, Passage, draw, make_records
from traube.tasks.task import Task, TaskCard, index_texts

QUICK = {"epochs": 2, "batch": 16, "learning_rate": 1e-3}
LONGER = {**QUICK, "epochs": 8, "patience": 0, "learning_rate": 1e-2}
SECTIONS = {
    "cat": ["the cat", "cat cat", "a cat", "cat the cat"],
    "dog": ["the dog", "dog dog", "a dog", "dog the dog"],
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAUBE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(tmp_path / "checkpoints"))


def pages(level: str = "flat", queries: bool = True) -> Task:
    """Articles on cats and dogs, of which some are learned from; each title is a query."""
    parts = {"train": ["star", "soup"], "validation": ["bread"], "test": ["query", "star soup"]}
    tables = []
    for part, titles in parts.items():
        passages = [
            Page(
                title,
                title,
                [
                    Passage(title, (section,), f"{text} {title}")
                    for section, texts in SECTIONS.items()
                    for text in texts
                ],
            )
            for title in titles
        ]
        tables.append(make_records(passages, level, Path("articles"), part))
    table = pd.concat(tables, ignore_index=True)
    corpus, indexed = index_texts(table if queries else table.assign(query=None))
    return Task(TaskCard(name="articles"), corpus, draw(indexed, level))


@pytest.mark.slow
def test_what_is_left_is_a_model_that_shares_its_bases_vectors(base: Transformer) -> None:
    task = pages()
    left = Qs3m.with_values(**QUICK).fit(task, base, paths.checkpoints())
    model = load_model(left.best.name)
    assert model.similarity.query == "text"
    assert model.fingerprint != base.fingerprint
    assert model.encoder.fingerprint == base.fingerprint
    bench = Workbench.at(paths.home())
    assert bench.encoded(task, base)[1] == len(task.scored)
    assert bench.encoded(task, model)[1] == 0
    about = json.loads((left.best / "checkpoint.json").read_text())
    assert about["watched"] == "validation_auc" and about["parts"] == ["train", "validation"]


def test_the_encoder_stays_as_it_is_and_the_similarity_does_not(base: Transformer) -> None:
    left = Qs3m.with_values(**QUICK).fit(pages(), base, paths.checkpoints())
    for path in VettedFolder.at(base.folder).files:
        assert (left.last / path.relative_to(base.folder)).read_bytes() == path.read_bytes()
    before = Qs3m.with_values(**QUICK | {"epochs": 0}).fit(pages(), base, paths.checkpoints())
    first, last = (load_file(folder / "similarity" / "model.safetensors") for folder in (before.last, left.last))
    assert all(not np.array_equal(first[name], last[name]) for name in first if name.endswith("weight"))


@pytest.mark.parametrize(
    "changes",
    [
        *({}, {"network": "qss"}, {"network": "attention"}),
        *(
            pytest.param(changes, marks=pytest.mark.slow)
            for changes in (
                *({"query": "passages"}, {"query": "none"}, {"loss": "mse"}, {"projection": "coded"}, {"pairs": "all"}),
                *({"begin": "random"}, {"network": "attention", "masked": "no"}),
            )
        ),
    ],
)
def test_every_variant_learns_what_tells_cats_from_dogs(changes: dict[str, str], base: Transformer) -> None:
    recipe = {**LONGER, **changes}
    left = Qs3m.with_values(**recipe).fit(pages(), base, paths.checkpoints())
    assert max(left.scores) > 0.9
    task = pages()
    model = load_model(left.best.name)
    vectors = Workbench.at(paths.home()).vectors(task, model)
    for split in task.test_splits():  # pages whose words it has not seen together
        text = vectors.subset(np.array([split.query])).load()[0]
        distances = model.similarity.distances(vectors.subset(split.rows).load(), text)
        same = split.labels[:, None] == split.labels[None, :]
        assert distances[same].mean() < distances[~same].mean()


def test_random_labels_teach_nothing(base: Transformer) -> None:
    """The twin: on pages whose groups mean nothing, the AUC of other pages stays near one half."""
    task, rng = pages(), np.random.default_rng(0)
    shuffled = task.splits.assign(label=rng.permutation(task.splits["label"].to_numpy()))
    left = Qs3m.with_values(**LONGER).fit(Task(task.card, task.corpus, shuffled), base, paths.checkpoints())
    assert abs(np.mean(left.scores) - 0.5) < 0.25


def test_it_begins_as_a_distance_of_the_encoders_vectors(base: Transformer) -> None:
    from sklearn.metrics import pairwise_distances, roc_auc_score

    task = pages()
    left = Qs3m.with_values(**QUICK | {"epochs": 0, "network": "qss"}).fit(task, base, paths.checkpoints())
    (split,) = (s for s in task.splits.query("part == 'validation'").groupby("split"))
    texts = dict(zip(task.corpus["text_id"], task.corpus["text"], strict=True))
    X = base.encode([texts[t] for t in split[1]["text_id"]])
    labels = split[1]["label"].to_numpy()
    i, j = np.triu_indices(len(X), 1)
    expected = roc_auc_score(labels[i] == labels[j], -pairwise_distances(X, metric="cosine")[i, j])
    assert left.scores[0] == pytest.approx(expected)


def test_the_papers_recipe_is_a_name_of_its_own(base: Transformer) -> None:
    paper = Qs3m.with_values(**Qs3m.paper)
    assert paper.recipe.loss == "mse" and paper.recipe.learning_rate == 1e-5 and paper.recipe.begin == "random"
    assert ".x" in paper.name_checkpoints("articles", "tiny") and ".x" not in Qs3m().name_checkpoints(
        "articles", "tiny"
    )


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "qs3m__articles__tiny.s42"),
        ({"query": "none"}, "qs3m__articles__tiny.no_query.s42"),
        ({"query": "passages", "seed": 3}, "qs3m__articles__tiny.passages.s3"),
        ({"network": "qss", "split_set": "fold_2"}, "qs3m__articles__tiny.qss.fold_2.s42"),
    ],
)
def test_names_say_network_query_and_fold(changes: dict[str, object], name: str) -> None:
    assert Qs3m.with_values(**changes).name_checkpoints("articles", "tiny") == name


def test_a_section_and_one_above_it_are_no_pair(base: Transformer) -> None:
    """At level `hier` nobody knows whether they are one subtopic."""
    nested = [
        Page("star", "star", [Passage("star", sections, f"{text} star") for sections, text in (
            (("cat",), "the cat"), (("cat",), "a cat"), (("cat", "soup"), "cat soup"), (("dog",), "the dog"), (("dog",), "a dog"))])
    ]  # fmt: skip
    table = pd.concat([make_records(nested, "hier", Path("articles"), part) for part in ("train", "validation")])
    corpus, indexed = index_texts(table)
    task = Task(TaskCard(name="articles"), corpus, draw(indexed, "hier"))
    trainer = Qs3m.with_values(**QUICK | {"pairs": "all"})
    examples = trainer.make_examples(trainer.make_network(base), task, trainer.select_texts(task, ()))
    assert examples.n == 10 - 2  # not the cats' own with the soup below them


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"query": "none", "network": "qss"}, (Invalid, "qs3m")),
        ({"query": "none", "network": "attention"}, (Invalid, "qs3m")),
        ({"start": "x"}, (Invalid, "qs3m", "start")),
        ({"network": "qs4m"}, (Invalid, "qs3m", "qss")),
        ({"projecton": "coded"}, (Unknown, "projecton")),
    ],
)
def test_recipes_that_cannot_be(changes: dict[str, str], refusal: Refusal) -> None:
    with refused(*refusal):
        Qs3m.with_values(**changes)


def test_tasks_that_cannot_be_learned_from(base: Transformer) -> None:
    with refused(Invalid, "default"):
        Qs3m().fit(pages(queries=False), base, paths.checkpoints())
    without = pages()
    tested = Task(without.card, without.corpus, without.splits[without.splits["part"] != "validation"])
    with refused(TooFew, "qs3m"):
        Qs3m().fit(tested, base, paths.checkpoints())
    with refused(TooFew, "fold_9"):
        Qs3m.with_values(split_set="fold_9").fit(pages(), base, paths.checkpoints())


def test_attention_can_begin_with_a_trained_head(base: Transformer) -> None:
    head = Qs3m.with_values(**QUICK).fit(pages(), base, paths.checkpoints()).best
    changes = {**QUICK, "network": "attention", "start": head.name, "epochs": 0}
    left = Qs3m.with_values(**changes).fit(pages(), base, paths.checkpoints())
    weights, own = (load_file(folder / "similarity" / "model.safetensors") for folder in (left.last, head))
    assert all(np.array_equal(weights[f"head.{name}"], values) for name, values in own.items())
    with refused(Invalid, "qs3m"):
        Qs3m.with_values(**changes | {"projection": "coded"}).fit(pages(), base, paths.checkpoints())


@pytest.mark.slow
def test_patience_ends_a_training_that_gets_no_better(base: Transformer) -> None:
    left = Qs3m.with_values(**QUICK | {"epochs": 200, "patience": 2, "learning_rate": 1e-9}).fit(
        pages(), base, paths.checkpoints()
    )
    assert len(left.curve) == 3  # before the first step, and two evaluations that are no better
    twin = Qs3m.with_values(**QUICK | {"epochs": 3, "patience": 0, "learning_rate": 1e-9}).fit(
        pages(), base, paths.checkpoints()
    )
    assert len(twin.curve) == 4
