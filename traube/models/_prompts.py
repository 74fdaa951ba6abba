"""The prompt that is put in front of every text, by what the vectors are for."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from traube._core.errors import Invalid, unknown
from traube.models._card import ModelCard
from traube.models._model_files import ModelFile

Purpose: TypeAlias = Literal["clustering", "similarity"]
CHOSEN = "traube"  # the name of a prompt that was chosen before: a training saves it with the weights
# How models and MTEB call the prompt for a purpose, in lower case and without signs
NAMES: dict[Purpose, tuple[str, ...]] = {
    "clustering": ("clustering", "cluster", "separation"),
    "similarity": ("sts", "similarity", "semanticsimilarity", "sentencesimilarity", "textmatching"),
}
# Those of mteb 2.26.24 (`abstask_prompt` of its clustering and its STS tasks)
INSTRUCTIONS: dict[Purpose, str] = {
    "clustering": "Identify categories in user passages.",
    "similarity": "Retrieve semantically similar text.",
}
TEXT = "{text}"
_INSTRUCT = re.compile(r"(Instruct: ).+(\nQuery:\s*)", re.DOTALL)  # a prompt of an instruct model, for some other task


@runtime_checkable
class Prompted(Protocol):
    """A model that has a prompt, which may be another one for another purpose."""

    @property
    def prompt(self) -> str:
        """Text that is put in front of every other; empty if nothing is."""

    def prompted_for(self, purpose: Purpose) -> Any:
        """Return the model with the prompt for a purpose: the same if that is no other."""


def get_model_prompt(model: Any) -> str:
    """Return the prompt of a model; empty if it has none."""
    return model.prompt if isinstance(model, Prompted) else ""


def for_pairs(model: Any) -> Any:
    """Return the model as it encodes the texts of pairs."""
    return model.prompted_for("similarity") if isinstance(model, Prompted) else model


def read_prompts(folder: Path) -> tuple[dict[str, str], str | None]:
    """Return the prompts of a model's folder by name, and the name of its default prompt."""
    file = ModelFile(folder, "config_sentence_transformers.json")
    settings = file.parse() if file.path.exists() else {}
    if not isinstance(settings, dict):
        return {}, None
    texts, default = settings.get("prompts"), settings.get("default_prompt_name")
    prompts = {name: text for name, text in texts.items() if isinstance(text, str)} if isinstance(texts, dict) else {}
    return prompts, default if default in prompts else None


def choose_prompt(card: ModelCard, prompts: Mapping[str, str | None], default: str | None, purpose: Purpose) -> str:
    """Return the prompt of a model for a purpose.

    It is what the card says, by text, by name or by an instruction; else the one of the model that is named for the
    purpose, its template for instructions with MTEB's instruction, its default prompt, or none.

    Parameters
    ----------
    card : ModelCard
        The model's card.
    prompts : mapping of str to str
        The model's own prompts by name.
    default : str or None
        The name of its default prompt.
    purpose : {"clustering", "similarity"}
        What the vectors are for.

    Returns
    -------
    str
        The prompt; empty for none.

    Raises
    ------
    TraubeError
        If the card names a prompt that the model lacks, or an instruction for which it has no template.
    """
    if card.prompt is not None:
        return card.prompt
    model_prompts = {name: text or "" for name, text in prompts.items()}
    if CHOSEN in model_prompts:
        return model_prompts[CHOSEN]
    by_name = {re.sub(r"[\W_]", "", name).casefold(): text for name, text in reversed(model_prompts.items())}
    if card.prompt_name is not None:
        name = re.sub(r"[\W_]", "", card.prompt_name).casefold()
        if name not in by_name:
            raise Invalid(f"model '{card.name}': {unknown('prompt', card.prompt_name, model_prompts)}")
        return by_name[name]
    named = next((by_name[name] for name in NAMES[purpose] if name in by_name), None)
    if named is not None and card.instruction is None and card.template is None:
        return named
    template = card.template or next((made for text in model_prompts.values() if (made := _make_template(text))), None)
    if template is not None:
        return template.replace("{instruction}", card.instruction or INSTRUCTIONS[purpose]).removesuffix(TEXT)
    if card.instruction is not None:
        raise Invalid(f"model '{card.name}': instruction: the model has no template; say one (template)")
    return model_prompts.get(default or "", "")


def _make_template(prompt: str) -> str | None:
    """Return the template that a prompt for another task was made of; None if it was made of none."""
    match = _INSTRUCT.fullmatch(prompt)
    return f"{match[1]}{{instruction}}{match[2]}{TEXT}" if match else None
