"""A stored task comes back as it was, and counts once its checks are done."""

from pathlib import Path

import pandas as pd
import pytest

from tests.errors import refused
from traube._core.errors import Missing
from traube._storage import Storage, open_storage
from traube.tasks.stored import complete_task, get_card, get_manifest, read_ingested, read_task, save_corpus, save_rows
from traube.tasks.task import Task, index_texts


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def save_task(storage: Storage, task: Task, topics: pd.DataFrame) -> None:
    save_corpus(storage, task.name, task.corpus, index_texts(topics)[1], "raw 1")
    save_rows(storage, task.card, task.splits)
    complete_task(storage, task.card)


def test_a_task_comes_back_as_it_was_stored(storage: Storage, tiny_task: Task, topics: pd.DataFrame) -> None:
    save_task(storage, tiny_task, topics)
    manifest = get_manifest(storage, "tiny")
    assert manifest is not None
    assert manifest.raw_version == "raw 1"
    assert read_task(storage, tiny_task.name).data_version == manifest.data_version == tiny_task.data_version
    assert get_card(storage, "tiny") == tiny_task.card
    assert len(read_ingested(storage, "tiny", "records")) == len(topics)


def test_a_task_whose_splits_are_new_is_absent_until_their_checks_are_done(
    storage: Storage, tiny_task: Task, topics: pd.DataFrame
) -> None:
    save_task(storage, tiny_task, topics)
    save_rows(storage, tiny_task.card, tiny_task.splits)
    assert get_manifest(storage, "tiny") is not None  # the same as before
    save_rows(storage, tiny_task.card, tiny_task.splits[:9])
    assert get_manifest(storage, "tiny") is None
    with refused(Missing, "traube run --task tiny"):
        read_task(storage, tiny_task.name)
