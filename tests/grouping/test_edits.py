"""groups.yaml: groups that a person renames, merges and splits, in this run, the next one, and for new texts."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from tests.errors import Refusal, refused
from tests.made import make_nested_texts
from traube import TextClusterer
from traube._core.errors import Changed, Conflict, Invalid, TooFew, Unknown, Unsupported
from traube._grouping.cluster_texts import cluster_texts
from traube._grouping.clustering import Clustering
from traube._grouping.edits import nest, read_edits

ABOUT = {
    "bread": "bread dough loaf crust", "goal": "goal keeper match penalty",
    "moon": "moon orbit crater mars", "violin": "violin opera chord sonata",
}  # fmt: skip


def make_texts(each: int = 12, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join([*random.permutation(words.split()), f"n{i}"]) for i in range(each) for words in ABOUT.values()]


@pytest.fixture(scope="module")
def clustering() -> Clustering:
    """Four groups, one of each four words."""
    found = cluster_texts([*make_texts(), "  "], model="tfidf", n_clusters=4)
    assert sorted(found.sizes().values()) == [12] * 4
    return found


@pytest.fixture
def numbers(clustering: Clustering) -> dict[str, int]:
    """The group of each thing."""
    return {name: int(clustering.labels[i]) for i, name in enumerate(ABOUT)}


def write(folder: Path, edits: str, clustering: Clustering | None = None) -> Path:
    head = "" if clustering is None else f"clustering: {clustering.fingerprint}\n"
    path = folder / "groups.yaml"
    path.write_text(f"{head}edits:\n{edits}")
    return path


def test_a_group_gets_a_name_and_stays_as_it_is(
    clustering: Clustering, numbers: dict[str, int], tmp_path: Path
) -> None:
    found = clustering.edit(write(tmp_path, f"  - rename: {numbers['moon']}\n    to: Space\n", clustering))
    assert found.name(numbers["moon"]) == "Space" and found.name(numbers["goal"]) == clustering.name(numbers["goal"])
    assert np.array_equal(found.labels, clustering.labels) and found.stability == clustering.stability
    assert (found.words, found.typical) == (clustering.words, clustering.typical)
    assert "Space" in set(found.to_frame()["name"]) and "Space" in set(found.summary()["name"])


def test_groups_are_merged_under_the_first_one(clustering: Clustering, numbers: dict[str, int], tmp_path: Path) -> None:
    bread, goal, moon = numbers["bread"], numbers["goal"], numbers["moon"]
    found = clustering.edit(write(tmp_path, f"  - merge: [{bread}, {goal}]\n    to: Weekend\n", clustering))
    assert found.sizes()[bread] == 24 and goal not in found.sizes() and found.name(bread) == "Weekend"
    assert (
        set(found.words[bread]) & {"dough", "keeper", "goal", "bread"} and found.words[moon] == clustering.words[moon]
    )
    assert bread not in found.stability  # nobody measured it
    assert all(found.labels[i] == bread for i in found.typical[bread])
    assert found.labels[-1] == -1 and np.isnan(found.distances[-1]) and found.blank == 1


def test_a_group_is_split_and_its_parts_can_be_named_after_it(tmp_path: Path) -> None:
    texts = make_texts()
    two = cluster_texts(texts, model="tfidf", n_clusters=2)
    whole = max(two.sizes(), key=lambda c: two.sizes()[c])
    path = write(tmp_path, f"  - split: {whole}\n    into: 3\n  - rename: 3\n    to: Third\n", two)
    found = two.edit(path)
    assert sorted(found.sizes()) == [0, 1, 2, 3] and found.name(3) == "Third"
    assert found.sizes()[whole] >= found.sizes()[2] >= found.sizes()[3]
    assert adjusted_rand_score([*range(4)] * 12, found.labels) > adjusted_rand_score([*range(4)] * 12, two.labels)
    assert np.array_equal(found.labels, two.edit(path).labels)


def test_edits_are_done_one_after_the_other(clustering: Clustering, numbers: dict[str, int], tmp_path: Path) -> None:
    bread, goal, moon = numbers["bread"], numbers["goal"], numbers["moon"]
    merge = f"  - merge: [{bread}, {goal}]\n    to: Weekend\n"
    found = clustering.edit(write(tmp_path, f"{merge}  - merge: [Weekend, {moon}]\n    to: All\n", clustering))
    assert found.sizes()[bread] == 36 and found.name(bread) == "All"
    parted = clustering.edit(write(tmp_path, f"{merge}  - split: Weekend\n", clustering))
    assert parted.sizes() == dict.fromkeys([bread, moon, numbers["violin"], 4], 12)  # 4: `goal`'s number stays its own
    with refused(Unknown, goal, "line 5"):
        clustering.edit(write(tmp_path, f"{merge}  - rename: {goal}\n    to: Gone\n", clustering))


def test_new_texts_join_what_was_made_of_the_groups(tmp_path: Path) -> None:
    """Each joins the nearest part of a merged group, which may lie far from the mean of all of it."""
    texts, new = make_texts(), ["a penalty and a goal", "the orbit of mars", "a sonata", ""]
    plain = TextClusterer(model="tfidf", n_clusters=4).fit(texts)
    bread, goal, moon, violin = (int(plain.labels_[i]) for i in range(4))
    path = write(tmp_path, f"  - merge: [{moon}, {goal}, {bread}]\n    to: All but music\n", plain.clustering_)
    edited = TextClusterer(model="tfidf", n_clusters=4, groups=path).fit(texts)
    assert plain.predict(new).tolist() == [goal, moon, violin, -1]
    assert edited.predict(new).tolist() == [moon, moon, violin, -1]
    assert edited.n_clusters_ == 2 and edited.clustering_.name(moon) == "All but music"
    parts = write(tmp_path, f"  - split: {moon}\n", plain.clustering_)
    split = TextClusterer(model="tfidf", n_clusters=4, groups=parts).fit(texts)
    assert set(split.predict([text for text in texts if "moon" in text])) == {moon, 4}


# the next run


def test_a_group_that_is_called_by_a_text_is_found_again_among_other_texts(tmp_path: Path) -> None:
    path = write(
        tmp_path, "  - rename: moon crater   mars\n    to: Space\n  - merge: [Space, 'goal keeper pen']\n    to: Out\n"
    )
    for texts in (make_texts(), make_texts(17, seed=3)):
        known = ["moon crater mars orbit and more", "goal keeper penalty match and more"]
        found = cluster_texts([*texts, *known], model="tfidf", n_clusters=4).edit(path)
        assert found.name(found.labels[-2]) == found.name(found.labels[-1]) == "Out"
        assert {found.name(found.labels[i]) for i, text in enumerate(texts) if "moon" in text} == {"Out"}
        assert "Out" not in {found.name(found.labels[i]) for i, text in enumerate(texts) if "bread" in text}


def test_a_group_is_called_by_its_name_of_key_words_too(clustering: Clustering, tmp_path: Path) -> None:
    name = clustering.name(2)
    assert clustering.edit(write(tmp_path, f"  - rename: {name}\n    to: Mine\n")).name(2) == "Mine"


def test_numbers_of_another_clustering_are_never_applied(clustering: Clustering, tmp_path: Path) -> None:
    path = write(tmp_path, "  - rename: 3\n    to: Space\n", clustering)
    other = cluster_texts(make_texts(13), model="tfidf", n_clusters=4)
    same = cluster_texts([*make_texts(), "  "], model="tfidf", n_clusters=4)
    assert same.edit(path).name(3) == "Space"  # the next run on the same texts
    with refused(Changed, path, "line 3", clustering.fingerprint, other.fingerprint):
        other.edit(path)
    with refused(Conflict, other.fingerprint, "clustering:"):
        other.edit(write(tmp_path, "  - rename: 3\n    to: Space\n"))


@pytest.mark.parametrize(
    ("edits", "refusal"),
    [
        ("  - rename: 9\n    to: A\n", (Unknown, "line 3", 9, 0, 1, 2)),
        ("  - rename: no such text\n    to: A\n", (Unknown, "line 3", "no such text")),
        ("  - rename: n\n    to: A\n", (Unknown, "line 3")),  # too short for the beginning of a text
        ("  - rename: 0\n    to: A\n  - rename: 1\n    to: A\n", (Conflict, "line 5", "A", 0)),
        ("  - split: 0\n    into: 13\n", (TooFew, "line 3", 0, 12, 13)),
        ("  - rename: 0\n", (Invalid, "line 3", "edits.0", "to: NAME")),
        ("  - rename: 0\n    merge: [1, 2]\n    to: A\n", (Invalid, "line 3", "edits.0")),
        ("  - to: A\n", (Invalid, "line 3", "edits.0")),
        ("  - merge: [1]\n", (Invalid, "line 3", "edits.0.merge", 2)),
        ("  - merge: 1\n", (Invalid, "line 3", "edits.0.merge")),
        ("  - split: 1\n    to: A\n", (Invalid, "line 3", "edits.0")),
        ("  - split: 1\n    into: 1\n", (Invalid, "line 4", "edits.0.into", 2)),
        ("  - rename: 0\n    into: 2\n    to: A\n", (Invalid, "line 3", "edits.0", "into", "split")),
        ("  - rename: 0\n    too: A\n", (Invalid, "line 4", "edits.0.too")),
        ("  - rename: 0\n    to: ''\n", (Invalid, "line 4", "edits.0.to", 1)),
        ("  - rename: true\n    to: A\n", (Invalid, "line 3", "edits.0.rename")),
        ("  rename: 0\n", (Invalid, "line 2", "edits")),
    ],
)
def test_what_cannot_be_done_is_one_line_with_file_and_line(
    clustering: Clustering, tmp_path: Path, edits: str, refusal: Refusal
) -> None:
    path = write(tmp_path, edits, clustering)
    with refused(*refusal, path):
        clustering.edit(path)


def test_a_text_that_begins_like_those_of_several_groups_names_none(tmp_path: Path) -> None:
    found = cluster_texts([f"the same start {text}" for text in make_texts()], model="tfidf", n_clusters=4)
    with refused(Conflict, "the same start", 0, 1, 2, 3):
        found.edit(write(tmp_path, "  - rename: the same start\n    to: A\n"))


def test_groups_by_a_similarity_are_merged_and_renamed_but_not_split(tmp_path: Path) -> None:
    found = cluster_texts(make_texts(4), model="jaccard", n_clusters=4)
    merged = found.edit(write(tmp_path, "  - merge: [0, 1]\n    to: Both\n", found))
    assert merged.name(0) == "Both" and merged.sizes()[0] == 8
    with refused(Unsupported, 0):
        found.edit(write(tmp_path, "  - split: 0\n", found))


# layers


def test_other_layers_nest_with_what_was_changed() -> None:
    coarse, own, fine = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 2, 3, 3])
    merged = np.array([0, 0, 1, 1, 1, -1])  # most of 1 lie in the coarse 0
    found = nest([coarse, own, fine], 1, merged)
    assert found[0].tolist() == [0, 0, 0, 0, 0, 1] and found[1] is merged
    split = np.array([0, 0, 1, 3, 2, 2])
    assert nest([coarse, own, fine], 1, split)[2].tolist() == [0, 1, 2, 4, 3, 3]
    assert [layer.tolist() for layer in nest([coarse, own, fine], 1, own)] == [
        coarse.tolist(), own.tolist(), fine.tolist(),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_clustering_that_was_edited_has_layers_paths_and_a_report(tmp_path: Path) -> None:
    found = cluster_texts(make_nested_texts(), model="tfidf").at_layer(1)
    first, second = list(found.sizes())[:2]
    edited = found.edit(write(tmp_path, f"  - merge: [{first}, {second}]\n    to: Both\n  - split: Both\n", found))
    for above, below in zip(edited.layers, edited.layers[1:], strict=False):
        pairs = set(zip(below.labels.tolist(), above.labels.tolist(), strict=True))
        assert len(pairs) == len({own for own, _ in pairs})
    assert np.array_equal(edited.layers[edited.level].labels, edited.labels)
    assert any("Both" in path.split(" > ")[-1] for path in edited.paths()) and "Both" in edited.to_html()
    assert not edited.tree["parent"][edited.tree["layer"] > 0].isna().any()


def test_what_was_read_of_a_file_can_be_looked_at(tmp_path: Path) -> None:
    read = read_edits(write(tmp_path, "  - rename: '3'\n    to: ' Space '\n"))
    assert (read.edits[0].groups, read.edits[0].to, read.clustering, read.lines) == ((3,), "Space", None, (2,))
