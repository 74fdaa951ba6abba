"""Models: lexical baselines, sentence-transformers, checkpoints, and their vectors.

Code that turns texts into vectors belongs here; the choice of texts and the use of vectors do not.

Other rooms import what is listed here, and the modules without an underscore.
"""

import re
import sys
from pathlib import Path
from typing import Any

from traube._core import inputs
from traube._core.cards import is_generated, model_file, model_files, name_card, read_each, read_one, read_values
from traube._core.config import parse
from traube._core.errors import Conflict, Invalid, TraubeError, Unknown, Unsafe, unknown
from traube._core.settings import MODEL_KEY
from traube._core.versions import get_version
from traube._core.words import get_words_version
from traube.models import checkpoints
from traube.models._similarities import get_similarity
from traube.models.base import Encoder, Model, fingerprint_on
from traube.models.card import ModelCard, Precision, catalogue
from traube.models.chat import parse_endpoint
from traube.models.endpoint import Endpoint
from traube.models.given import FunctionModel, LoadedTransformer, make_name
from traube.models.lexical import Hashed, Lexical
from traube.models.pairwise import Compared, Pairwise
from traube.models.similarity import SIMILARITY_VERSION, Similarity
from traube.models.transformer import ENCODER_VERSION, Transformer
from traube.models.vectors import Vectors
from traube.models.weights import find_folder

__all__ = [
    "CORPUS_BOUND",
    "Encoder",
    "FunctionModel",
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
    "to_model",
]

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_CUT = re.compile(r"(.+)@([1-9][0-9]{0,4})")  # a model whose vectors are cut to so many dimensions
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")

CORPUS_BOUND = ("bow", "tfidf", "lsa", "tokens", "lda")  # kinds of models that are fitted on each task's texts


def present_version(name: str) -> str:
    """Return today's version of something in a model's `numerics`.

    Parameters
    ----------
    name : str
        A package, or one of Traube's own parts: "encoder", "similarity" or "words".

    Returns
    -------
    str
        The version.

    Examples
    --------
    >>> from traube.models import load_model, present_version
    >>> numerics = load_model("tfidf").numerics
    >>> all(present_version(name) == version for name, version in numerics.items())
    True
    """
    versions = {"encoder": ENCODER_VERSION, "similarity": SIMILARITY_VERSION, "words": get_words_version()}
    return versions[name] if name in versions else get_version(name)


def model_cards() -> dict[str, ModelCard]:
    """Return all known models by name: checkpoints, the catalogue's, then those of `cards/`.

    Returns
    -------
    dict of str to ModelCard
        Cards by the names of their models.

    Examples
    --------
    >>> from traube.models import model_cards
    >>> model_cards()["lsa"].dimensions
    128
    """
    return {**checkpoints.cards(), **catalogue(), **read_each(model_files(), read_card)[0]}


def card_errors() -> dict[Path, TraubeError]:
    """Return the errors of the models' cards that cannot be used.

    A broken card does not take the others down.

    Returns
    -------
    dict of Path to TraubeError
        Errors by the files of the cards.

    Examples
    --------
    >>> from traube.models import card_errors
    >>> card_errors()
    {}
    """
    return read_each(model_files(), read_card)[1]


def is_endpoint(name: str) -> bool:
    """Return whether a card says that the model of that name is behind an endpoint."""
    card = model_cards().get(split_cut(name)[0])
    return card is not None and card.kind == "endpoint"


def read_card(path: Path) -> ModelCard:
    """Read a user's model card; the model's name is the file's."""
    entry, lines = read_values(path)
    card = parse(ModelCard, {"name": name_card(path), **entry}, path, lines)
    if card.name in catalogue():
        raise Conflict(f"{path}: the name '{card.name}' is taken by a model of the catalogue; rename the file")
    if card.kind not in ("transformer", "endpoint"):
        line = lines.get(("kind",), 1)
        raise Invalid(f"{path}: line {line}: kind: a card's model is a transformer or an endpoint")
    if is_generated(path) and card.key_env != MODEL_KEY:  # a backup of somebody else may have brought it
        line = lines.get(("key_env",), 1)
        raise Unsafe(f"{path}: line {line}: key_env: a card that names a key belongs into cards/")
    if not card.model:
        line = lines.get(("model",), 1)
        raise Invalid(f"{path}: line {line}: model: expected a Hugging Face id or a local folder")
    return card


def load_model(name: str | Path, device: str | None = None, precision: Precision | None = None) -> Model:
    """Return a model by its name, its id on the Hugging Face hub, its folder or endpoint. Weights are loaded when needed.

    Parameters
    ----------
    name : str or Path
        A name goes before a folder, and a folder before an id of the hub; an endpoint is `URL#MODEL`. An id or endpoint
        that is that of a known model gives this one, with the settings of its card. NAME@256 cuts the vectors of a
        transformer, and makes them unit again; an endpoint is requested to give such vectors.
    device : {"cuda", "mps", "cpu"}, optional
        Where it computes. By default the best one there is.
    precision : {"fp32", "bf16", "auto"}, optional
        In place of its card's.

    Returns
    -------
    Model
        The model; its weights are not read yet.

    Raises
    ------
    TraubeError
        If there is no such model (the message names near ones), or its card is broken.

    Examples
    --------
    >>> from traube import load_model
    >>> load_model("tfidf").encode(["a loaf of bread", "the crew of the ship"]).shape
    (2, 6)
    """
    if not isinstance(name, (str, Path)):
        raise TypeError(
            f"load_model: name is of type {type(name).__name__}: pass a name, a Hugging Face id or a folder; models that are "
            "objects go into cluster_texts and evaluate as they are"
        )
    card = _card_of(f"{name.absolute()}" if isinstance(name, Path) else name)
    return model_of(card.model_copy(update={"precision": precision}) if precision else card, device)


def split_cut(name: str) -> tuple[str, int | None]:
    """Return a model's name without the dimensions to which its vectors are cut, as in NAME@256, and these."""
    match = _CUT.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


def _card_of(name: str) -> ModelCard:
    whole, dimensions = split_cut(name)
    if dimensions is not None and not inputs.is_folder(Path(name)):
        card = _card_of(whole)
        if card.kind not in ("packaged", "transformer", "endpoint") or card.similarity:
            raise Invalid(f"model '{name}': only vectors of transformers can be cut, and {whole} is none")
        return card.model_copy(update={"name": f"{card.name}@{dimensions}", "dimensions": dimensions})
    # no other card is read, so that looking up hundreds of models is quick
    if name in catalogue():
        return catalogue()[name]
    if file := model_file(name):
        return read_one(file, read_card)
    if checkpoint := checkpoints.find_card(name):
        return checkpoint
    if "://" in name:
        url, model = parse_endpoint(name, MODEL_KEY)
        alike = [
            card for card in model_cards().values() if card.kind == "endpoint" and card.weights == f"{url}#{model}"
        ]
        return alike[0] if alike else ModelCard(name=make_name(model), kind="endpoint", url=url, model=model)
    if folder := find_folder(name):
        if inputs.is_folder(folder):
            return ModelCard(name=make_name(folder.name), model=str(folder))
        raise Unknown(f"unknown model '{name}': there is no such folder")
    if HUB_ID.fullmatch(name):
        known = [card for card in model_cards().values() if (card.weights, card.similarity) == (name, None)]
        return known[0] if known else ModelCard(name=make_name(name), model=name)
    if inputs.is_folder(Path(name)):  # not used directly: the name of a removed model would become a folder's
        raise Unknown(f"unknown model '{name}': for the folder write ./{name}")
    raise unknown("model", name, model_cards())


def to_model(given: Any, name: str | None = None, precision: Precision | None = None) -> Model:
    """Return the model that somebody passed, as a Model.

    Parameters
    ----------
    given : str, Path, SentenceTransformer, callable or Model
        What `load_model` takes, or "auto" (`minilm`: no texts say their language here); a network in memory; or a
        function that takes a list of texts and returns an array with a row for each.
    name : str, optional
        Name in tables, in place of the model's own; a Model keeps its name.
    precision : {"fp32", "bf16", "auto"}, optional
        As in `load_model`.

    Returns
    -------
    Model
        The model; its weights are not read yet.

    Raises
    ------
    TypeError
        If it is none of these.

    Examples
    --------
    >>> from traube.models import to_model
    >>> to_model(lambda texts: [[len(text)] for text in texts], name="length").name
    'length'
    """
    if name is not None and not _NAME.fullmatch(name):
        raise Invalid(f"'{name}' is no name for a model: use lower-case letters, digits and _ . -")
    if isinstance(given, (str, Path)):
        loaded = load_model("minilm" if given == "auto" else given, precision=precision)
        return loaded if name in (None, loaded.name) else model_of(loaded.card.model_copy(update={"name": name}))
    library = sys.modules.get("sentence_transformers")  # not imported for the test
    if library is not None and isinstance(given, library.SentenceTransformer):
        return LoadedTransformer(given, name)
    if hasattr(given, "fingerprint") and not isinstance(given, type):
        model: Model = given
        return model
    if callable(given) and not isinstance(given, type):
        return FunctionModel(given, name)
    raise TypeError(
        f"model is of type {type(given).__name__}: pass a name, a Hugging Face id, a folder, a SentenceTransformer, "
        "or a function that takes a list of texts and returns an array with a row for each"
    )


def model_of(card: ModelCard, device: str | None = None) -> Model:
    """Return the model that a card describes. Weights are loaded when they are first needed.

    Parameters
    ----------
    card : ModelCard
        The card.
    device : {"cuda", "mps", "cpu"}, optional
        Device that computes. By default the best one there is.

    Returns
    -------
    Model
        The model; its weights are not read yet.

    Examples
    --------
    >>> from traube.models import ModelCard, model_of
    >>> model_of(ModelCard(name="few_words", kind="tfidf", features=2)).encode(["a loaf of bread", "bread"]).shape
    (2, 2)
    """
    if card.similarity:
        return Compared(card, model_of(card.model_copy(update={"similarity": None}), device), get_similarity(card))
    if card.kind in CORPUS_BOUND:
        return Lexical(card)
    if card.kind == "hashed":
        return Hashed(card)
    if card.kind == "endpoint":
        return Endpoint(card)
    return Pairwise(card, device) if card.kind == "pairwise" else Transformer(card, device)
