"""Allowlists: what a model's folder may hold and ask for. What is not here is refused or never opened.

These lists decide before any library sees a folder: names and optional settings stand in `allowed.yaml`, what says more
here. `traube.models.vetting` applies them.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, create_model

from traube._core.config import Strict, read_yaml

_LISTS, _ = read_yaml(Path(__file__).with_name("allowed.yaml"))

MODULES: dict[str, str] = _LISTS["modules"]
# Every path under which versions 0 to 6 of sentence-transformers write these classes, and the name.
CLASS_PATHS = {
    f"sentence_transformers.{place}.{name}": name
    for name, module in MODULES.items()
    for place in ("models", f"models.{name}", module, module.rpartition(".")[0])
}

ARCHITECTURES = frozenset(_LISTS["architectures"].split())
_TOKENIZERS = _LISTS["tokenizers"].split()
TOKENIZERS = frozenset([*_TOKENIZERS, *(f"{name}Fast" for name in _TOKENIZERS), "TokenizersBackend"])
# Files that may be opened where a network or its tokenizer lies. Vocabularies are lists of words: they
# are opened as they are; every JSON file is read here first.
VOCABULARIES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "sentencepiece.model", "spiece.model"),
    *("spm.model", "tokenizer.model", "bpe.codes"),
)
VOCABULARY_PARTS = ("merges.txt", "dict.txt")  # no vocabulary without another file
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.safetensors"
# Names that sentence-transformers gave the settings of its Transformer, in the order of their use.
TRANSFORMER_SETTINGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ["bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"]
)
FOLDER = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?"  # relative, and never upward
# Patterns of what is downloaded: all names above, in the model's folder and in those of its modules.
DOWNLOADED = tuple(
    f"{place}{name}"
    for place in ("", "*/")
    for name in (
        *("modules.json", "config.json", "config_sentence_transformers.json", "router_config.json"),
        *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json"),
        *(*TRANSFORMER_SETTINGS, *VOCABULARIES, *VOCABULARY_PARTS, "*.safetensors", INDEX),
    )
)
NOT_DOWNLOADED = ("onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*", "similarity/*", ".*", "*/.*")


def _empty(value: Any) -> Any:
    if value:
        raise ValueError("arguments for a library's loader are not allowed, since they could name other files")
    return value


def _folder(path: str) -> str:
    if path != "." and not re.fullmatch(FOLDER, path):
        raise ValueError("no folder inside of the model's")
    return path


Nothing = Annotated[dict[str, Any] | list[Any], AfterValidator(_empty)]
Place = Annotated[str, AfterValidator(_folder)]
Below = Annotated[Place, StringConstraints(pattern=r"^[^.]")]  # a folder of its own
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+| -]{0,64}$")]  # no path, and no name on the hub
Scalar = Annotated[bool | int | float | Word | None, Field(union_mode="left_to_right")]
Values = Scalar | list[Scalar | list[Scalar | list[Scalar]]]
Precision = Literal["float32", "float16", "bfloat16", "float64"]
Attention = Literal["eager", "sdpa"] | None  # any other name is of a kernel, perhaps on the hub
TokenizerClass = Literal[tuple(sorted(TOKENIZERS))] | None  # type: ignore[valid-type]


class Module(Strict):
    """An entry of modules.json."""

    idx: int = 0
    name: Word = ""
    path: Place
    type: Literal[tuple(CLASS_PATHS)]  # type: ignore[valid-type]
    kwargs: Nothing = Field([])


class RouterParameters(Strict):
    """Settings of a router."""

    default_route: Word | None = None
    allow_empty_key: bool = True
    route_mappings: Nothing = Field({})


class Router(Strict):
    """Folders of modules by route, of router_config.json."""

    types: dict[Below, Literal[tuple(CLASS_PATHS)]]  # type: ignore[valid-type]
    structure: dict[Word, list[str]]
    parameters: RouterParameters


class Package(Strict):
    """Settings of the whole model, of config_sentence_transformers.json."""

    version: dict[Word, Word] = Field({}, alias="__version__")
    model_type: Word = "SentenceTransformer"
    prompts: dict[str, str | None] = Field({})
    default_prompt_name: str | None = None
    similarity_fn_name: Literal["cosine", "dot", "euclidean", "manhattan"] | None = None
    truncate_dim: int | None = None


class Modality(Strict):
    """Method of the network that encodes a modality."""

    method: Literal["forward"]
    method_output_name: Literal["last_hidden_state", "pooler_output", "logits"]


class Modalities(Strict):
    """Modalities that a Transformer reads: text alone."""

    text: Modality


Output = Literal["sentence_embedding", "token_embeddings"]
ACTIVATIONS = {**dict.fromkeys(("Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"), "activation"), "Identity": "linear"}


class Dense(Strict):
    """Settings of a Dense module."""

    in_features: int
    out_features: int
    bias: bool = True
    activation_function: Literal[tuple(f"torch.nn.modules.{place}.{name}" for name, place in ACTIVATIONS.items())]  # type: ignore[valid-type]
    module_input_name: Output | None = None
    module_output_name: Output | None = None
    use_residual: bool = False


class LayerNorm(Strict):
    """Settings of a LayerNorm module."""

    dimension: int


class Dropout(Strict):
    """Settings of a Dropout module."""

    dropout: float


class AddedToken(Strict):
    """A token with the rules by which it is found in texts, as tokenizers write it."""

    kind: Literal["AddedToken"] = Field("AddedToken", alias="__type")
    id: int | None = None
    content: str
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    single_word: bool = False
    special: bool = False


Token = str | AddedToken
TokenNumber = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,7}$")]  # up to the largest, tokens are made up
# Types by which `allowed.yaml` describes settings, besides those above.
Backend = Literal["tokenizers", "sentencepiece", "python"]
Errors = Literal["replace", "ignore", "strict"]
Side = Literal["left", "right"]
UpTo10000 = Annotated[int, Field(ge=0, le=10_000)]
# Tokens of a window of local attention: each text is padded to one, and takes memory by the window's square.
Window = Annotated[int, Field(ge=1, le=1_024)]
Factors = Annotated[list[float], Field(max_length=4_096)]

# Those of `allowed.yaml` may be absent. pydantic evaluates the names of their types in this module.
SETTINGS: dict[str, type[Strict]] = {"Dense": Dense, "LayerNorm": LayerNorm, "Dropout": Dropout}
for _name, _kinds in _LISTS["settings"].items():
    _fields: dict[str, Any] = {key: (kind, None) for key, kind in _kinds.items()}
    SETTINGS[_name] = create_model(_name, __base__=Strict, __module__=__name__, **_fields)
Rope, RopeByLayer = SETTINGS["Rope"], SETTINGS["RopeByLayer"]
NULLABLE = frozenset(_LISTS["nullable"].split())
LEFT_OUT = {file: frozenset(keys.split()) for file, keys in _LISTS["left_out"].items()}
NETWORK_KEYS = frozenset(_LISTS["network_keys"].split())
TOKENIZER_FILE = frozenset(_LISTS["tokenizer_file"].split())
TOKENIZER_MODELS = frozenset(_LISTS["tokenizer_models"].split())
TOKENIZER_KEYS = frozenset(_LISTS["tokenizer_keys"].split())
NETWORK_VALUES: dict[str, Any] = {  # types of keys whose values are no sizes, switches or words
    "rope_parameters": Rope | RopeByLayer | None,
    "rope_scaling": Rope | RopeByLayer | None,
    **dict.fromkeys(
        ("local_radius", "global_block_size", "block_size", "attention_window"), Window | list[Window] | None
    ),
    "tokenizer_class": TokenizerClass,
    "dtype": Precision | None,
    "torch_dtype": Precision | None,
    "attn_implementation": Attention,
    "_attn_implementation": Attention,
}
