"""Language models from transformers, loaded from a folder that anybody may have made."""

import re
from pathlib import Path
from typing import Any, Literal

from traube._core.errors import Changed, Malformed, TooLarge, TraubeError
from traube.models._tensors import BESIDE, find_excess, find_fault, quiet
from traube.models._tokenizers import TOKENIZER, check_built
from traube.models._transformer import copy_weights
from traube.models._vetting import LOCAL, SAFE, VettedFolder, library_errors

KINDS = {"causal": "causal language model", "masked": "masked language model", "new": "encoder with a head for words"}
# Heads for other things than words, which a language model's weights may hold besides.
OTHER_HEADS = re.compile(
    BESIDE.pattern.replace("cls|lm_head|mlm_head|", r"cls\.seq_relationship|").replace("predictions|head|", "")
)


def load_language_model(folder: Path, head: Literal["causal", "masked", "new"]) -> tuple[Any, Any]:
    """Load a tokenizer and a network that predicts words, as transformers saves them, on the CPU.

    Parameters
    ----------
    folder : Path
        The folder of the model.
    head : {"causal", "masked", "new"}
        What the network predicts: the next word, masked words, or masked words by a head that may
        be new and random, since it will be trained.

    Returns
    -------
    tuple
        The tokenizer and the network.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

    kind = AutoModelForCausalLM if head == "causal" else AutoModelForMaskedLM
    where = f"{folder}: no {KINDS[head]} can be loaded"
    try:
        with library_errors("an error of a library"):
            vetted = VettedFolder.at(folder, plain=True)
            before = vetted.hash_files()
            with vetted.copy() as copy, quiet():
                if excess := find_excess(copy, kind.__name__):
                    raise TooLarge(f"{folder}: {excess}")
                tokenizer = AutoTokenizer.from_pretrained(copy, **LOCAL)
                if not (copy / TOKENIZER).exists():
                    check_built(tokenizer, str(folder))
                network, loading_info = kind.from_pretrained(
                    copy,
                    **SAFE,
                    dtype=torch.float32 if head == "new" else "auto",
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                )
            copy_weights(network)
            changed = VettedFolder.at(folder, plain=True).hash_files() != before
    except TraubeError as error:
        fault = str(error).removeprefix(f"{folder}: ").removeprefix(f"{folder}/")
        raise type(error)(f"{where}: {fault}") from None
    base = network.base_model_prefix
    if head == "new":  # only the encoder's weights have to be there
        loading_info = {
            **loading_info,
            "missing_keys": [key for key in loading_info["missing_keys"] if key.startswith(f"{base}.")],
        }
    if fault := find_fault(loading_info, beside=BESIDE if head == "new" else OTHER_HEADS):
        raise Malformed(f"{where}: {fault}")
    if changed:
        raise Changed(f"{folder}: its files changed while they were read; run again")
    return tokenizer, network
