"""Models: lexical baselines, sentence-transformers, checkpoints, and their vectors.

What turns texts into vectors belongs here; which texts, and what is done with vectors, does not.
"""

from collections.abc import Callable
from pathlib import Path

from traube.core.cards import model_file, model_files, read_each, read_one
from traube.core.config import parse, read_yaml
from traube.core.errors import TraubeError, unknown
from traube.core.versions import installed
from traube.models import checkpoints
from traube.models.base import Encoder, Model, fingerprint_on
from traube.models.card import ModelCard, Precision, catalogue
from traube.models.lexical import BagOfWords, Hashed, Lda, Lsa, TfIdf, Tokens
from traube.models.pairwise import Compared, Pairwise
from traube.models.similarities import named
from traube.models.similarity import SIMILARITY_VERSION, Similarity
from traube.models.transformer import ENCODER_VERSION, Transformer
from traube.models.vectors import Vectors

__all__ = [
    "CORPUS_BOUND",
    "Encoder",
    "Model",
    "ModelCard",
    "Precision",
    "Similarity",
    "Vectors",
    "card_errors",
    "fingerprint_on",
    "load_model",
    "model_cards",
    "model_of",
    "present_version",
]

_LEXICAL: dict[str, Callable[[ModelCard], Model]] = {
    "bow": BagOfWords,
    "tfidf": TfIdf,
    "lsa": Lsa,
    "tokens": Tokens,
    "lda": Lda,
}
CORPUS_BOUND = tuple(_LEXICAL)  # kinds of models that are fitted on each task's texts


def present_version(name: str) -> str:
    """Today's version of something in a model's `numerics`."""
    own = {"encoder": ENCODER_VERSION, "similarity": SIMILARITY_VERSION}
    return own[name] if name in own else installed(name)


def model_cards() -> dict[str, ModelCard]:
    """All known models by name: checkpoints, the catalogue's, then those of `cards/`."""
    return {**checkpoints.cards(), **catalogue(), **read_each(model_files(), read_card)[0]}


def card_errors() -> dict[Path, TraubeError]:
    """The models' cards that cannot be used, and why: a broken card does not take the others down."""
    return read_each(model_files(), read_card)[1]


def read_card(path: Path) -> ModelCard:
    """Read a user's model card; the model's name is the file's."""
    entry, lines = read_yaml(path)
    card = parse(ModelCard, {"name": path.stem, **entry}, path, lines)
    if card.name in catalogue():
        raise TraubeError(f"{path}: the name '{card.name}' is taken by a model of the catalogue; rename the file")
    if card.kind != "transformer":
        raise TraubeError(f"{path}: line {lines.get(('kind',), 1)}: kind: a card's model is a transformer")
    if not card.model:
        line = lines.get(("model",), 1)
        raise TraubeError(f"{path}: line {line}: model: expected a Hugging Face id or a local folder")
    return card


def load_model(name: str, device: str | None = None, precision: Precision | None = None) -> Model:
    """The model of that name, in another precision than its card's if one is given. Weights are loaded when needed.

    Raises
    ------
    TraubeError
        If there is no such model (the message names near ones), or its card is broken.
    """
    # no other card is read, so that hundreds of models are looked up in no time
    if name in catalogue():
        card = catalogue()[name]
    elif own := model_file(name):
        card = read_one(own, read_card)
    elif checkpoint := checkpoints.card_named(name):
        card = checkpoint
    else:
        raise unknown("model", name, model_cards())
    return model_of(card.model_copy(update={"precision": precision}) if precision else card, device)


def model_of(card: ModelCard, device: str | None = None) -> Model:
    """The model that a card describes. Weights are loaded when they are first needed."""
    if card.similarity:
        return Compared(card, model_of(card.model_copy(update={"similarity": None}), device), named(card))
    if card.kind in _LEXICAL:
        return _LEXICAL[card.kind](card)
    if card.kind == "hashed":
        return Hashed(card)
    return Pairwise(card, device) if card.kind == "pairwise" else Transformer(card, device)
