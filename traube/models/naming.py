"""Models as people name them: by a name of the catalogue or of a card, an id of the Hugging Face hub, or a folder."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from traube._core import paths
from traube._core.cards import is_generated, list_names, model_file, model_files
from traube._core.errors import Missing, TraubeError, Unknown, unknown
from traube._core.generated_cards import write_card, writing_cards
from traube._core.inputs import is_folder, resolve_path
from traube._core.settings import MODEL_KEY
from traube.models import HUB_ID, load_model, model_cards, read_card, split_cut
from traube.models.card import ModelCard, catalogue
from traube.models.chat import parse_endpoint
from traube.models.given import make_name
from traube.models.weights import find_folder, is_path

EXAMPLE = "multilingual_e5_small"


def name_model(given: str, write: bool = False) -> str:
    """Return the name of the model that a person means.

    Parameters
    ----------
    given : str
        A name, an id of the hub, a folder, or an endpoint's `URL#MODEL`.
    write : bool, default=False
        Whether a card is written for a model that has none.

    Returns
    -------
    str
        The name.

    Raises
    ------
    TraubeError
        If there is no such model; the message names near ones, or says how a model of the hub is named.
    """
    whole, dimensions = split_cut(given)
    if dimensions is not None and not is_folder(Path(given)):
        return load_model(f"{name_model(whole, write)}@{dimensions}").name
    if "://" in given:
        return _name_endpoint(given, write)
    folder = find_folder(given)
    weights = str(folder or given)
    if name := _find_name(given, weights):
        return name
    if folder and not is_folder(folder):
        raise Missing(f"model '{given}': there is no folder {folder}")
    if not write or not (folder or HUB_ID.fullmatch(given)):
        raise _unknown_model(given)
    with writing_cards():  # another process may have written the card meanwhile
        return _find_name(given, weights) or _write_card({"model": weights}, folder or Path(given))


def _name_endpoint(given: str, write: bool) -> str:
    """Return the name of the model behind an endpoint."""
    url, model = parse_endpoint(given, MODEL_KEY)
    settings, place = {"kind": "endpoint", "url": url, "model": model}, Path(urlsplit(url).hostname or "", model)
    ModelCard(name="checked", **settings)  # before anything is written

    def find() -> str | None:
        cards = ((name, card) for name, card in model_cards().items() if card.kind == "endpoint")
        return next((name for name, card in cards if card.weights == f"{url}#{model}"), None)

    if name := find():
        return name
    if not write:
        raise Unknown(f"unknown model '{given}': no card names this endpoint; `traube run -m` writes one")
    with writing_cards():
        return find() or _write_card(settings, place)


def _find_name(given: str, weights: str) -> str | None:
    """Return the name of a model that has a card: its own name was given, or its weights were."""
    known = model_cards()
    if given in known or model_file(given):  # errors in a card are reported when the model is loaded
        return given
    local = {name: card for name, card in known.items() if card.kind != "endpoint"}
    cards = ((name, card) for name, card in local.items() if card.model and not card.similarity)
    return next((name for name, card in cards if _is_same(weights, card.model or "")), None)


def _write_card(settings: Mapping[str, str], model: Path) -> str:
    """Write the card of a model without one, unless it cannot be used, and return its name."""
    path = paths.generated_cards() / f"{_free_name(model)}.yaml"
    comment = "Written for a model that was named without a card. To keep it, copy it to cards/."
    write_card(path, comment, settings)
    try:
        return read_card(path).name
    except TraubeError:
        path.unlink()
        raise


def forget_model(name: str) -> None:
    """Remove the card that was written for a model which could not be loaded."""
    for path in model_files():
        if path.stem == name and is_generated(path):
            path.unlink()


def near_hub_ids(given: str) -> list[str]:
    """Return the hub's ids in the catalogue that are spelled nearly like one that the hub does not have."""
    ids = {card.model for card in catalogue().values() if card.model} - {given}
    return get_close_matches(given, ids, n=2, cutoff=0.8)


def _is_same(weights: str, model: str) -> bool:
    """Return whether a card names these weights. Letter case distinguishes folders, but no models of the hub."""
    if is_path(model):
        return weights == str(resolve_path(paths.cards(), model))
    return weights.casefold() == model.casefold()


def _unknown_model(given: str) -> Unknown:
    for name, card in catalogue().items():
        hub_id = card.model or ""
        if given.casefold() == hub_id.partition("/")[2].casefold():
            return Unknown(f"unknown model '{given}': did you mean {name}, which is {hub_id} of the Hugging Face hub?")
    if "-" in given or "/" in given or given != given.lower():
        example = catalogue()[EXAMPLE].model
        return Unknown(
            f"unknown model '{given}': a model of the Hugging Face hub is named with its organization, like {example}; "
            "`traube models` lists the others"
        )
    return unknown("model", given, model_cards())


def _free_name(model: Path) -> str:
    """Return a free name for a model, from the last part of its id or folder, with the part before where another has it."""
    last, before = make_name(model.name), make_name(model.parent.name)
    taken = {*model_cards(), *list_names()}
    names = [last, f"{before}_{last}".strip("_"), *(f"{last}_{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name and name not in taken)
