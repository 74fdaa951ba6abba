"""Cards that identify models: an entry of `catalogue.yaml` or `catalogue_mteb.yaml`, or a card of one's own."""

from collections.abc import Collection, Iterable
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from traube._core.config import PathName, Strict, parse, read_yaml
from traube._core.errors import Changed, TraubeError
from traube._core.settings import MODEL_KEY
from traube.models._chat import parse_endpoint

CATALOGUE = Path(__file__).with_name("catalogue.yaml")
GENERATED = Path(__file__).with_name("catalogue_mteb.yaml")  # written by deploy/make_catalogue.py
Precision = Literal["fp32", "bf16", "auto"]
COMPONENTS = 128
MANY = "mul"  # the code of models that are made for fifty languages or more
# What a card says of a model without setting anything
FACTS = ("megabytes", "architecture", "parameters", "vector_sizes", "longest_input", "license", "released")
# Keys that a card of an endpoint has alone, and those that it has no use for
OF_ENDPOINTS = ("url", "key_env", "price", "batch")
OF_NETWORKS = ("package", "sha256", "revision", "max_length", "pooling", "prompt_name", "instruction", "template")
# The kinds of models whose vectors a similarity can compare.
COMPARED = {
    "jaccard": ("tokens",),
    "jensen_shannon": ("lda",),
    "divergence": ("lda",),
    "query_space": ("packaged", "transformer"),
}


class ModelCard(Strict):
    """A model's entry in the catalogue, or a card of one's own in `cards/`.

    Examples
    --------
    >>> from traube.models import ModelCard
    >>> ModelCard(name="small", model="intfloat/multilingual-e5-small").pooling is None
    True
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*(@[1-9][0-9]*)?$")
    kind: Literal[
        "bow", "tfidf", "lsa", "tokens", "lda", "hashed", "packaged", "transformer", "pairwise", "endpoint"
    ] = "transformer"
    description: str = ""
    citation: str = Field("", description="keys of references.bib, or free text")
    languages: tuple[Annotated[str, Field(pattern=r"^[a-z]{2,3}$")], ...] = Field(
        (), description=f"ISO 639-1 codes of those that it is made for; {MANY}: many; none: any, or not known"
    )
    megabytes: int | None = Field(None, ge=1, description="size of the weights that are downloaded")
    # what a person chooses by; no setting, and part of no hash
    architecture: str | None = Field(
        None, description="model_type of its config.json; static: one vector for each token"
    )
    parameters: int | None = Field(None, ge=1, description="number of weights")
    vector_sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="dimensions of its vectors; of a Matryoshka model all that its authors name, the full ones last"
    )
    longest_input: int | None = Field(
        None, ge=1, description="tokens that it was made to read; max_length is the setting"
    )
    license: str = Field("", description="SPDX identifier in lower case, or the address of its terms")
    released: date | None = None
    # lexical models
    features: int | None = Field(
        None, ge=1, description="vocabulary size; the most frequent terms are kept. Of hashed: the number of buckets"
    )
    dimensions: int | None = Field(
        None,
        ge=1,
        description=f"number of components of lsa and hashed, of topics of lda, by default {COMPONENTS}; of a transformer, "
        "to which its vectors are cut and made unit, as NAME@256 does; of an endpoint, what is requested of it",
    )
    # packaged models
    package: str | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="which carries it; of a name with dots, code would run"
    )
    extra: str | None = Field(None, description="Traube's extra that installs the package; by default Traube needs it")
    file: str | None = Field(
        None,
        pattern=r"^[a-z0-9][a-z0-9_.-]*$",
        description="in the package: 4-bit weights, in place of a model's folder",
    )
    sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="of model.safetensors, or of `file`; checked at load"
    )
    # endpoints
    url: str | None = Field(None, description="address of https, or http of this machine, which mostly ends in /v1")
    key_env: str = Field(
        MODEL_KEY,
        pattern=r"^([A-Z0-9_]*API_KEY|TRAUBE_[A-Z0-9_]*KEY)$",
        description="name of the environment variable with the key",
    )
    price: float | None = Field(None, ge=0, description="US dollars per million tokens")
    batch: int = Field(100, ge=1, le=2048, description="texts of a request, at most")
    # transformers
    model: PathName | None = Field(
        None, description="Hugging Face id, a local folder, or an endpoint's name of a model"
    )
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$", description="commit of the Hugging Face repository")
    prompt: str | None = Field(
        None, description="put in front of every text; by default the model's own for clustering or for similarity"
    )
    max_length: int | None = Field(None, ge=4, description="longest input in tokens")
    pooling: Literal["mean", "cls", "max", "lasttoken", "weightedmean"] | None = Field(
        None,
        description="for encoders that come without pooling; by default the mean, or the last token of a causal model",
    )
    precision: Precision = "fp32"
    prompt_name: str | None = Field(None, description="the name of one of the model's own prompts")
    instruction: str | None = Field(
        None, description="what an instruct model is to do with the texts; by default that of MTEB's clustering tasks"
    )
    template: str | None = Field(
        None,
        pattern=r"\{instruction\}[\s\S]*\{text\}$",
        description="of an instruct model, like `Instruct: {instruction}\\nQuery: {text}`; by default the model's own",
    )
    # what compares the vectors of a split, where that is not up to a method
    similarity: Literal["jaccard", "jensen_shannon", "divergence", "query_space"] | None = None
    share: float = Field(0.75, gt=0, le=1, description="query_space: of the passages, those nearest to the query")
    directions: int = Field(5, ge=1, description="query_space: dimensions of their span that are kept, at most")

    def is_made_for(self, languages: Collection[str]) -> bool:
        """Return whether the model is made for all of some languages, or for any."""
        return not self.languages or MANY in self.languages or {*languages} <= {*self.languages}

    @property
    def components(self) -> int:
        """The number of components of a lexical model."""
        return self.dimensions or COMPONENTS

    @property
    def weights(self) -> str | None:
        """The place of the weights, which several cards may name: an id of the hub, a folder, a package or an endpoint."""
        return f"{self.url}#{self.model}" if self.kind == "endpoint" else self.model or self.package

    @model_validator(mode="after")
    def _comes_from_a_package(self) -> Self:
        given = [name for name in ("package", "file", "extra") if getattr(self, name) is not None]
        if given and (self.kind != "packaged" or self.package is None):
            raise ValueError(f"{given[0]} is of models that a package carries, of kind packaged")
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        # what it says, not the thirty keys that it leaves out
        return ((name, value) for name, value in super().__repr_args__() if name in self.model_fields_set)

    @model_validator(mode="after")
    def _has_one_prompt(self) -> Self:
        given = [name for name in ("prompt", "prompt_name", "instruction") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} both say what is put in front of a text")
        return self

    @model_validator(mode="after")
    def _is_endpoint(self) -> Self:
        other_kinds = OF_NETWORKS if self.kind == "endpoint" else OF_ENDPOINTS
        defaults = type(self).model_fields
        if wrong := [name for name in other_kinds if getattr(self, name) != defaults[name].default]:
            raise ValueError(f"{', '.join(wrong)}: makes no sense on a card of kind {self.kind}: leave it out")
        if self.kind == "endpoint":
            try:
                parse_endpoint(f"{self.url or ''}#{self.model or ''}", self.key_env)
            except TraubeError as error:
                raise ValueError(f"url, model: {error}") from None
        return self

    @model_validator(mode="after")
    def _can_be_compared(self) -> Self:
        kinds = COMPARED.get(self.similarity or "", (self.kind,))
        if self.kind not in kinds:
            raise ValueError(f"{self.similarity} compares vectors of {' or '.join(kinds)}, not of {self.kind}")
        return self


@lru_cache(maxsize=1)
def catalogue() -> dict[str, ModelCard]:
    """Return the cards of the models that come with Traube, by name.

    Those of `catalogue.yaml` come first. What `catalogue_mteb.yaml` knows of them describes them and sets nothing.
    """
    entries, lines = read_yaml(CATALOGUE)
    generated, generated_lines = read_yaml(GENERATED)
    about = generated["about"]
    if unknown := sorted(about.keys() - entries.keys()) or sorted(generated["models"].keys() & entries.keys()):
        raise Changed(f"{GENERATED}: {unknown[0]}: run `make catalogue`, since catalogue.yaml has changed")
    cards = {}
    for name, entry in entries.items():
        facts = {key: about[name][key] for key in FACTS if key in about.get(name, {}) and key not in entry}
        card_lines = {k[1:]: v for k, v in lines.items() if k[0] == name}
        cards[name] = parse(ModelCard, {"name": name, **facts, **entry}, CATALOGUE, card_lines)
    for name, entry in generated["models"].items():
        card_lines = {k[2:]: v for k, v in generated_lines.items() if k[:2] == ("models", name)}
        cards[name] = parse(ModelCard, {"name": name, **entry}, GENERATED, card_lines)
    return cards
