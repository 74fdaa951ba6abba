"""A tiny encoder, and texts whose groups anybody can see."""

from itertools import product

import pytest

GROUPS = ("cat", "dog", "star")
QUICK = {
    "aecl": {"epochs": 24, "stage_1": 4, "stage_2": 10, "batch": 30, "head_learning_rate": 3e-3, "dropout": False},
    "sccl": {"iterations": 12, "batch": 30, "dropout": False},
    "rstc": {
        "iterations": 90,
        "alone": 0,
        "by_k_means": 0,
        "refreshes": 25,
        "batch": 30,
        "frozen": True,
        "scaled": True,
        "evenness": 1.0,
        "settled": 0.0,
    },
    "self_train": {"pretraining": 40, "steps": 30, "batch": 20, "width": 50, "rarity": 10.0},
    "stcc": {"epochs": 8, "batch": 20, "codes": 4, "learning_rate": 5e-3},
}
# for what does not ask whether the groups are found
SHORT = {
    "aecl": {"epochs": 4, "stage_1": 1, "stage_2": 1, "batch": 30},
    "sccl": {"iterations": 10, "batch": 30},
    "rstc": {"iterations": 10, "alone": 2, "by_k_means": 2, "refreshes": 3, "batch": 30},
    "self_train": {"pretraining": 2, "steps": 6, "batch": 30, "width": 20},
    "stcc": {"epochs": 4, "batch": 30, "codes": 4},
}


@pytest.fixture(scope="session")
def grouped() -> tuple[list[str], list[str]]:
    """54 texts of three groups, each recognizable by a word, and their groups."""
    texts = {
        f"{a} {word} {word} {word} {word} {b}".strip(): word
        for word in GROUPS
        for a, b in product(("the", "a", "soup"), ("", "the", "a", "bread", "soup", "query"))
    }
    return list(texts), list(texts.values())
