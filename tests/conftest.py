"""Every test has a home, cards and params of its own: none touches what lies in the project."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TRAUBE_HOME of this test."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("TRAUBE_HOME", str(folder))
    monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(folder / "checkpoints"))
    for variable in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plain encoder as `transformers` saves it: random weights, 64 positions, no pooling."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny_bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "star", "soup", "bread", "query"]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)
    return folder
