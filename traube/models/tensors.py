"""Checks that a model's weights are its network's: the same tensors by name and shape.

Where a file lacks a tensor, transformers makes a random one up. All tensors are compared on the `meta` device, by the
headers of safetensors.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from traube._core.disk import read_json
from traube._core.errors import Malformed, TraubeError
from traube._core.inputs import format_size
from traube.models import _allowed as allowed
from traube.models.vetting import LOCAL, SAFE, VettedFolder, cache_by_stamps, library_errors, list_modules

SHOWN = 3  # names that an error lists
TIMES_WEIGHTS = 4  # a network in single precision whose weights are in a quarter of it
LARGEST_TABLES = 2**27  # bytes of what is in no file; GPT-Neo has 96 MiB of masks
LAYERS = 1_000  # a network with more has a tensor for each of them
# What a network may lack: the pooler, whose place sentence-transformers' own pooling takes, and
# buffers that are made of nothing but the configuration.
IDLE = re.compile(r"(^|\.)(pooler|position_ids|token_type_ids)(\.|$)")
# What weights may hold besides: heads that predict words or classes, and buffers of older versions.
BESIDE = re.compile(
    r"(^|\.)(pooler|position_ids|token_type_ids|inv_freq|masked_bias|attn\.bias)(\.|$)"
    r"|^(cls|lm_head|mlm_head|classifier|pre_classifier|score|qa_outputs|sop_classifier|predictions|head"
    r"|vocab_(transform|layer_norm|projector)|(generator|discriminator)_predictions|generator_lm_head)\."
    r"|^(decoder\.(weight|bias)|logit_scale)$"
)
COUNT = re.compile(r"(^|_)(layers?|experts|groups|blocks|stages|depth|networks|sizes|repeats|group_num)$")


def check_tensors(vetted: VettedFolder) -> None:
    """Refuse weights that are not those of the network that the folder describes."""
    if fault := _find_fault(vetted):
        raise Malformed(f"{vetted.folder}: {fault}")


@cache_by_stamps(256)
def _find_fault(vetted: VettedFolder) -> str:
    """Return what is wrong with the tensors of a folder; empty if nothing."""
    try:
        with library_errors("cannot be loaded"), vetted.copy() as copy:
            for place, name in list_modules(copy):
                if name == "Transformer":
                    if fault := find_excess(copy / place) or find_fault(*_compare_with_network(copy / place)):
                        return fault
                else:  # the other modules are small, and refuse foreign tensors
                    kind = getattr(import_module(f"sentence_transformers.{allowed.MODULES[name]}"), name)
                    try:
                        kind.load(str(copy), subfolder=place, **LOCAL)
                    except KeyError as error:
                        return f"its weights in {place or '.'} lack {error}"
            return ""
    except TraubeError as error:
        return str(error).removeprefix(f"{vetted.folder}: ").removeprefix(f"{vetted.folder}/")


def find_excess(folder: Path, kind: str = "AutoModel") -> str:
    """Return why a network is not built, since it has far more layers or numbers than its weights; empty if it is.

    Parameters
    ----------
    folder : Path
        A vetted folder of one network.
    kind : str, default="AutoModel"
        The class of transformers that builds it.

    Returns
    -------
    str
        The fault, or an empty string.
    """
    return _find_layers(folder) or _find_size(folder, kind)


def _find_size(folder: Path, kind: str) -> str:
    """Return that a network is larger than its weights: tables of positions are in no file, and would be made."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder, **LOCAL)
    with torch.device("meta"), torch.random.fork_rng(devices=[]), quiet():
        network = getattr(transformers, kind).from_config(config)
    size = sum(tensor.nbytes for tensor in (*network.parameters(), *network.buffers()))
    there = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if size > TIMES_WEIGHTS * there + LARGEST_TABLES:
        return f"config.json: its network has {format_size(size)}, and its weights {format_size(there)}"
    # frequencies of positions, of which each token of a text gets as many numbers
    kept = network.state_dict().keys()
    width = max((min(values.shape) for values in network.parameters() if values.dim()), default=0)
    tables = [values for name, values in network.named_buffers() if name not in kept and values.is_floating_point()]
    frequencies = max((len(values) for values in tables if values.dim() == 1), default=0)
    excess = f"config.json: its positions have {frequencies:,} frequencies, and its layers {width:,} numbers"
    return excess if frequencies > width else ""


def _find_layers(folder: Path) -> str:
    """Return that a network has more layers than its weights: one of a million layers takes a minute to be built."""
    from safetensors import safe_open

    def numbers(config: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
        for key, value in config.items():
            if isinstance(value, dict):
                yield from numbers(value)
            elif isinstance(value, int):
                yield key, value
            elif isinstance(value, list):
                yield key, sum(inside for inside in value if isinstance(inside, int))

    counts = {key: n for key, n in numbers(read_json(folder / "config.json")) if COUNT.search(key) and n > LAYERS}
    if not counts:
        return ""
    there = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as weights:
            there += len(weights.keys())
    key, most = max(counts.items(), key=lambda item: item[1])
    return f"config.json: {key} {most:,} is more than its weights have tensors ({there})" if most > there else ""


def find_fault(loading_info: Mapping[str, Any], pooled: bool = False, beside: "re.Pattern[str]" = BESIDE) -> str:
    """Return what is wrong with weights, from what transformers says of them when it loads a network; empty if nothing.

    Parameters
    ----------
    loading_info : dict
        `output_loading_info` of transformers.
    pooled : bool, default=False
        Whether the network's pooler is used.
    beside : re.Pattern, default=BESIDE
        What weights may hold besides the network's.

    Returns
    -------
    str
        The fault, or an empty string.
    """
    missing = sorted(key for key in loading_info["missing_keys"] if pooled or not IDLE.search(key))
    reshaped = sorted(key for key, *_ in loading_info["mismatched_keys"])
    unexpected = sorted(key for key in loading_info["unexpected_keys"] if not beside.search(key))
    if missing:
        return f"its weights lack {_list_names(missing)}, which would be random"
    if reshaped:
        return f"its weights have another shape than its config.json says: {_list_names(reshaped)}"
    return f"its weights hold what its network has no place for: {_list_names(unexpected)}" if unexpected else ""


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(name[:120] for name in names[:SHOWN]) + more


def _compare_with_network(folder: Path) -> tuple[dict[str, Any], bool]:
    """Return what transformers says of the weights in the folder's network, and whether its pooler is used."""
    import torch
    from sentence_transformers.base.modules.transformer import Transformer as Body
    from transformers import AutoConfig

    body = Body.__new__(Body)  # no tokenizer is needed, and no weights
    about = Body.load_config(str(folder), local_files_only=True)
    task = about.get("transformer_task", "feature-extraction")
    config = AutoConfig.from_pretrained(folder, **LOCAL)
    options = {**SAFE, "device_map": "meta", "ignore_mismatched_sizes": True, "output_loading_info": True}
    with torch.random.fork_rng(devices=[]), quiet():
        _, loading_info = body._load_model(str(folder), task, config, "torch", False, **options)
    modalities = about.get("modality_config", {}).values()
    return dict(loading_info), any(modality["method_output_name"] == "pooler_output" for modality in modalities)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide transformers' progress bar and table of missing tensors: `check_tensors` reports what matters of them."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)
