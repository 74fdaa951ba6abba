"""`traube models`: what a person chooses a model by."""

import json

from tests.cli.conftest import Traube
from traube.models.card import catalogue


def rows_of(traube: Traube, *options: str) -> dict[str, dict[str, object]]:
    rows = json.loads(traube("models", "--json", *options).stdout)
    return {row["model"]: row for row in rows}


def test_models_of_a_language_and_a_size_stand_by_their_published_scores(traube: Traube) -> None:
    rows = rows_of(traube, "--language", "de", "--max-megabytes", "600")
    scores = [row["score"] for row in rows.values()]
    known = [score for score in scores if isinstance(score, float)]
    assert len(known) > 3 and known == sorted(known, reverse=True)
    assert scores[len(known) :] == [None] * (len(scores) - len(known))
    sizes = [row["MB"] for row in rows.values()][len(known) :]
    assert sizes == sorted(sizes, key=lambda size: int(str(size)))
    assert all(isinstance(row["MB"], int) and row["MB"] <= 600 for row in rows.values())
    assert "multilingual_e5_small" in rows and "multilingual_e5_base" not in rows  # 1,113 MB
    assert "bge_small_en_v1.5" not in rows and "gbert_base" not in rows  # English; of a size that nobody states


def test_a_row_says_what_a_person_chooses_by(traube: Traube) -> None:
    row = rows_of(traube)["granite_311m_multilingual_r2"]
    assert row["dimensions"] == [128, 256, 384, 512, 768] and row["longest input"] == 8192
    assert (row["license"], row["released"], row["parameters"]) == ("apache-2.0", "2026-04-29", 311664384)
    assert rows_of(traube)["minilm_32"]["longest input"] == 32  # its card cuts texts there
    table = traube("models", "--language", "de").stdout
    assert "score" in table and "score" not in traube("models").stdout
    assert traube("models", "nomic_embed_text_v1.5").stdout.startswith("model: nomic_embed_text_v1.5")
    assert rows_of(traube).keys() >= catalogue().keys()
    assert traube("models", "--max-megabytes", "0").exit_code == 2
