"""Sentence-transformers models: from the Hugging Face hub, a local folder, or a Python package that carries one.

This module encodes. `traube.models.weights` finds a model's folder and checks whether it is safe to load.
"""

import hashlib
import logging
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from traube._core.arrays import Ints
from traube._core.errors import Changed, Failed, Invalid, Malformed, TooLarge, Unavailable
from traube._core.hashing import digest
from traube._core.versions import get_versions
from traube.models._attention import use_products
from traube.models._batching import Block, Sent, compute, compute_ahead, cut_blocks, make_block
from traube.models._model_files import ModelFile
from traube.models._precision import resolve_precision
from traube.models._tokenizers import TOKENIZER, check_built
from traube.models.base import BatchEncoder, OfCard
from traube.models.card import ModelCard
from traube.models.prompts import CHOSEN, Purpose, choose_prompt, read_prompts
from traube.models.tensors import check_tensors, quiet
from traube.models.vectors import Dense
from traube.models.vetting import LOCAL, SAFE, VettedFolder, library_errors, list_modules
from traube.models.weights import check_folder, download, is_folder, locate

logger = logging.getLogger(__name__)

# Part of every fingerprint. It stays: a fingerprint says which model it is, not which code ran it.
FINGERPRINT = "2"
# Raise when the same weights and settings would give other vectors: they are computed again, and
# what follows from them.
ENCODER_VERSION = "5"
LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers")
GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, Windows Subsystem for Linux
# Padded tokens a batch. Small batches stay in a CPU core's cache. A GPU wants large batches, and gets smaller ones
# when its memory runs out.
TOKENS_A_BATCH = {"cpu": 1_000, "cuda": 131_072, "mps": 16_384}
VERY_LARGE = 10**9  # tokens, by which transformers says that a tokenizer has no limit
AHEAD = 3  # batches for each thread: one computed, one waiting, one whose vectors are fetched
BATCHES_AT_ONCE = 16  # on a CPU, at most: more threads would wait for Python's lock


class Transformer(OfCard, BatchEncoder):
    """A sentence-transformers model, of a card of kind `packaged` or `transformer`."""

    trainable = True

    def __init__(self, card: ModelCard, device: str | None = None, purpose: Purpose = "clustering") -> None:
        super().__init__(card, device)
        self.purpose = purpose

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "purpose": self.purpose}

    @cached_property
    def prompt(self) -> str:
        """Text that is put in front of every other, for the model's purpose; empty if nothing is."""
        network = self.__dict__.get("network")
        prompts, default = (
            read_prompts(self.folder) if network is None else (network.prompts, network.default_prompt_name)
        )
        return choose_prompt(self.card, prompts, default, self.purpose)

    def prompted_for(self, purpose: Purpose) -> "Transformer":
        """Return the model with the prompt for a purpose: itself if that is no other."""
        other = type(self)(self.card, self._device, purpose)
        return self if other.prompt == self.prompt else other

    @cached_property
    def device(self) -> str:
        """Device of the network; by default the best one there is."""
        return self._device or best_device()

    @cached_property
    def folder(self) -> Path:
        """The folder of the weights. Does not download.

        Raises
        ------
        Unavailable
            If they are not on this machine.
        TraubeError
            If the folder holds no safetensors weights, or others than the card's checksum says.
        """
        folder = locate(self.card)
        check_folder(folder, self.card)
        return folder

    def fetch(self) -> None:
        """Make the weights available, from the Hugging Face hub if need be, with huggingface_hub's progress bars."""
        try:
            locate(self.card)
        except Unavailable:
            if self.card.model is None or is_folder(self.card.model):
                raise  # no other source has the model
            download(self.card)

    @property
    def weight_bytes(self) -> int:
        """Size of the safetensors files in bytes."""
        return sum(
            size for path, (size, *_) in VettedFolder.at(self.folder).stamps.items() if path.suffix == ".safetensors"
        )

    @cached_property
    def precision(self) -> str:
        """Precision of the network; "auto" in its card is resolved by a measurement."""
        if self.card.precision != "auto":
            return self.card.precision
        return resolve_precision(
            self.name,
            list(self._hashes.values()),
            self.device,
            lambda tried: (
                Transformer(self.card.model_copy(update={"precision": tried}), self.device, self.purpose).encode
            ),
        )

    @property
    def numerics(self) -> dict[str, str]:
        """Return the versions of the encoder's code and of the libraries that make the numbers."""
        return {"encoder": ENCODER_VERSION, **get_versions(LIBRARIES)}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights, the prompt, the pooling and the precision."""
        files = {path.relative_to(self.folder).as_posix(): content for path, content in self._hashes.items()}
        card = self.card
        # a card's own values differ from those that it leaves to the folder: "" means no prompt, and an absent
        # prompt means the folder's own
        prompt: Any = {None: "", "": None}.get(card.prompt, card.prompt)
        prompts, default = read_prompts(self.folder)
        if card.prompt is None and self.prompt != prompts.get(default or "", ""):
            prompt = ["for its purpose", self.prompt]
        pooling = {None: "mean", "mean": "explicitly mean"}.get(card.pooling, card.pooling)
        cut = [] if card.dimensions is None else [["cut", card.dimensions]]
        return digest([FINGERPRINT, files, [prompt, card.max_length, pooling, self.precision], *cut])

    @cached_property
    def _hashes(self) -> dict[Path, str]:
        return VettedFolder.at(self.folder).hash_files()

    def load(self) -> int:
        """Bring the weights into memory; return their bytes."""
        return sum(weights.nbytes for weights in self.network.parameters())

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[Ints, Dense]]:
        """Yield vectors as they are computed, the longest texts first: positions [b] in `texts` and float32 [b, d].

        Texts of like token length share a batch, so that little is spent on padding. On a CPU each core has a batch of
        its own. A batch that does not fit the GPU's memory is halved, and so are the batches after it.
        """
        network, budget = self.network.eval(), self._budget()

        def read(positions: Ints) -> Block:
            with library_errors(f"model '{self.name}': its tokenizer fails"):
                return make_block(network, texts, positions, self.prompt)

        with _batches_side_by_side(self.device) as (executor, number):
            for block in compute_ahead(read, cut_blocks(texts, self.max_length)):
                budget = yield from self._encode_block(block, budget, executor, number)

    def _encode_block(
        self, block: Block, budget: int, executor: Executor, number: int
    ) -> Generator[tuple[Ints, Dense], None, int]:
        """Yield positions and vectors of a block, batch by batch; return the budget of tokens that has held."""
        import torch

        start, running = 0, deque[tuple[slice, Future[Sent]]]()
        # a tokenizer's padding is set by the first batch, where the network tokenizes: threads must not set it at once
        ahead = 1 if block.tokens is None else AHEAD * number
        while running or start < len(block.lengths):
            while len(running) < ahead and start < len(block.lengths):
                rows = block.cut(start, budget)
                running.append((rows, executor.submit(self._encode_batch, block.take(rows))))
                start = rows.stop
            rows, future = running.popleft()
            try:
                vectors = self._check(block.take(rows), future.result().wait())
            except torch.OutOfMemoryError:
                tokens = int(block.lengths[rows.start])
                if rows.stop - rows.start == 1:
                    fault = f"one text of {tokens} tokens does not fit the memory of {self.device}; set max_length"
                    raise TooLarge(f"model '{self.name}': {fault}") from None
                wait([other for _, other in running])
                running.clear()
                start, budget = rows.start, max(1, tokens * (rows.stop - rows.start) // 2)
                torch.cuda.empty_cache()
                about = "%s: out of memory on %s; going on with batches of %d tokens"
                logger.warning(about, self.name, self.device, budget)
                continue
            yield block.positions[rows], vectors
            ahead = AHEAD * number
        return budget

    def _budget(self, device: str | None = None) -> int:
        import torch

        return TOKENS_A_BATCH[torch.device(device or self.device).type]

    def _encode_batch(self, batch: Block) -> Sent:
        import torch

        with library_errors(f"model '{self.name}': fails on {batch.texts[0][:60]!r}", let=torch.OutOfMemoryError):
            return self._forward(batch)

    def _check(self, batch: Block, vectors: Dense) -> Dense:
        """Return vectors, all of them finite, with as many dimensions as the card says."""
        if not np.isfinite(vectors).all():
            bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            where = f"the vector of text {batch.positions[bad]} ({batch.texts[bad][:60]!r})"
            raise Failed(f"model '{self.name}': NaN or infinity in {where}; its weights are broken")
        return vectors if self.card.dimensions is None else self._cut(vectors, self.card.dimensions)

    def _cut(self, vectors: Dense, dimensions: int) -> Dense:
        """Return the first dimensions of vectors, made unit again: of a Matryoshka model they hold the most."""
        if dimensions > vectors.shape[1]:
            raise Invalid(f"model '{self.name}': its vectors have {vectors.shape[1]} dimensions, not {dimensions}")
        truncated = vectors[:, :dimensions]
        lengths = np.linalg.norm(truncated, axis=1, keepdims=True)
        return np.asarray(truncated / np.where(lengths > 0, lengths, 1), dtype=np.float32)

    def shares(self, texts: Sequence[str], number: int, device: str) -> list[Ints]:
        """Divide texts into about so many shares of like work for a device, as positions, the longest texts first.

        A share ends where a batch does: shares encoded one by one give the same vectors as all texts at once, to the last digit.
        """
        blocks = [
            make_block(self.network, texts, positions, self.prompt) for positions in cut_blocks(texts, self.max_length)
        ]
        most = sum(int(block.lengths.sum()) for block in blocks) / number
        shares = []
        for block in blocks:
            first = start = 0
            while start < len(block.lengths):
                start = block.cut(start, self._budget(device)).stop
                if block.lengths[first:start].sum() >= most or start == len(block.lengths):
                    shares.append(block.positions[first:start])
                    first = start
        return shares

    @cached_property
    def max_length(self) -> int | None:
        """Number of tokens of a text that the network reads; None if nothing says so. Does not load the network."""
        if "network" in self.__dict__:
            limits = [self.network.max_seq_length]
        elif self.card.max_length:
            limits = [self.card.max_length]
        else:
            limits = _find_limits(self.folder)
        numbers = [limit for limit in limits if isinstance(limit, int | float)]
        return min((int(limit) for limit in numbers if 0 < limit < VERY_LARGE), default=None)

    def count_tokens(self, texts: Sequence[str]) -> Ints:
        """Return the number of tokens of each text with the prompt, however many the network reads, int64 [n]."""
        if not len(texts) or not callable(self._tokenizer):
            return np.zeros(len(texts), dtype=np.int64)
        with library_errors(f"model '{self.name}': its tokenizer fails"):
            some = [self.prompt + text for text in texts]
            read = self._tokenizer(some, truncation=False, verbose=False)["input_ids"]
        return np.array(list(map(len, read)), dtype=np.int64)

    @cached_property
    def _tokenizer(self) -> Any:
        """The network's tokenizer, loaded without the network if that is not in memory."""
        if "network" in self.__dict__:
            return self.network.tokenizer
        from transformers import AutoTokenizer

        fault = f"model '{self.name}': {self.folder}: cannot be loaded"
        with library_errors(fault), VettedFolder.at(self.folder).copy() as copy:
            place = next((place for place, name in list_modules(copy) if name == "Transformer"), None)
            if place is None:
                return None
            tokenizer = AutoTokenizer.from_pretrained(copy / place, **LOCAL)
            if not (copy / place / TOKENIZER).exists():
                check_built(tokenizer, f"model '{self.name}': {self.folder}")
            return tokenizer

    def _forward(self, batch: Block) -> Sent:
        """Compute a batch: by its tokens, or with sentence-transformers' `encode` where the network needs it."""
        if batch.tokens is not None:
            return compute(self.network, batch.tokens)
        options = {"batch_size": len(batch.texts), "prompt": self.prompt, "show_progress_bar": False}
        return Sent(np.asarray(self.network.encode(batch.texts, **options), dtype=np.float32))

    def with_network(self, network: Any) -> "Transformer":
        """Return the same model with a network in memory, as a training has changed it, in place of its weights."""
        model = Transformer(self.card, self.device, self.purpose)
        model.__dict__["network"] = network
        return model

    def with_network_of_elsewhere(self, network: Any) -> "Transformer":
        """Return the same model with a network that another machine has loaded, as this one computes with it."""
        import torch

        in_bf16 = next(network.parameters()).dtype == torch.bfloat16
        use_products(network, undo=not (in_bf16 and self.device == "cpu"))
        return self.with_network(network.to(self.device))

    @cached_property
    def network(self) -> Any:
        """The sentence-transformers network, loaded when it is first needed."""
        with library_errors(f"model '{self.name}': {self.folder}: cannot be loaded"):
            before, vetted = self._hashes, VettedFolder.at(self.folder)
            check_tensors(vetted)
            network = _load(self.card, vetted, self.device, self.precision, self.prompt)
            changed = VettedFolder.at(self.folder).hash_files() != before
        if changed:
            raise Changed(f"model '{self.name}': {self.folder}: its files changed while they were read; run again")
        return network


@contextmanager
def _batches_side_by_side(device: str) -> Iterator[tuple[Executor, int]]:
    """Yield threads of which each computes a batch, and their number: one on a GPU, and on a CPU one for each core.

    Cores that share a batch wait for each other at every layer: half of their time, and nearly all of it beside other
    busy processes. Besides, the last digits of a small batch would depend on the number of cores.
    """
    import torch

    threads = torch.get_num_threads()
    on_cpu = device == "cpu"
    number = min(threads, BATCHES_AT_ONCE) if on_cpu else 1
    executor = ThreadPoolExecutor(number, "encoding")
    if on_cpu:
        torch.set_num_threads(1)
    try:
        yield executor, number
    finally:
        executor.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _find_limits(folder: Path) -> list[Any]:
    """Return what a model's files say of how many tokens it reads, as sentence-transformers takes them."""
    place = next((place for place, name in list_modules(folder) if name == "Transformer"), None)
    if place is None:
        return []

    def read(name: str, key: str) -> Any:
        file = ModelFile(folder, f"{place}/{name}" if place else name)
        settings = file.parse() if file.path.exists() else {}
        return settings.get(key) if isinstance(settings, dict) else None

    max_seq_length = read("sentence_bert_config.json", "max_seq_length")
    usual = [read("tokenizer_config.json", "model_max_length"), read("config.json", "max_position_embeddings")]
    return [max_seq_length] if max_seq_length else usual


def best_device() -> str:
    """Return `cuda`, `mps` or `cpu`: the best one that this machine has."""
    if sys.platform == "linux" and not any(Path(device).exists() for device in GPUS):
        return "cpu"  # whatever torch says, which takes a second to import
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _load(card: ModelCard, vetted: VettedFolder, device: str, precision: str, prompt: str) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules.transformer import Transformer as Body
    from sentence_transformers.sentence_transformer.modules import Pooling

    folder = vetted.folder
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    loading = {"model_kwargs": {**SAFE, "dtype": dtype}, "processor_kwargs": LOCAL, "config_kwargs": LOCAL}
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)  # it warns of every default prompt
    with vetted.copy() as copy, quiet(), torch.random.fork_rng(devices=[]):
        # an unused pooler may be missing; training twice must give the same weights
        torch.manual_seed(0)
        if (copy / "modules.json").exists() or card.pooling is None:
            network = SentenceTransformer(str(copy), device=device, **LOCAL, **loading)
        else:
            body = Body(str(copy), **loading)
            pooling = Pooling(body.get_embedding_dimension(), pooling_mode=card.pooling)
            network = SentenceTransformer(modules=[body, pooling], device=device)
        places = [place for place, name in list_modules(copy) if name == "Transformer"]
        if not all((copy / place / TOKENIZER).exists() for place in places):
            for module in network.modules():
                check_built(getattr(module, "tokenizer", None), f"model '{card.name}': {folder}")
    special = getattr(network.tokenizer, "all_special_tokens", None)
    if special is not None and not set(network.tokenizer.get_vocab()) - set(special):
        raise Malformed(f"model '{card.name}': {folder}: its vocabulary is empty: all texts would have one vector")
    if card.max_length:
        positions = getattr(getattr(network[0], "config", None), "max_position_embeddings", None) or -1
        if 0 < positions < card.max_length:
            fault = f"max_length {card.max_length} is more than its {positions} positions"
            raise Invalid(f"model '{card.name}': {fault}")
        network.max_seq_length = card.max_length
    if card.prompt is not None or prompt != get_prompt(network):
        # where sentence-transformers looks, so that a training keeps it
        network.prompts = {**network.prompts, CHOSEN: prompt}
        network.default_prompt_name = CHOSEN
    copy_weights(network)
    place, name = list_modules(folder)[0]
    if name == "Transformer" and hasattr(network[0], "config"):  # where a training finds its head for words
        network[0].config.name_or_path = str(folder / place)  # not the copy that was loaded
    if precision == "bf16" and device == "cpu":
        use_products(network)
    return network.to(dtype).eval()


def copy_weights(network: Any) -> None:
    """Copy the weights that are still mapped from a file: they would change with the file, or end the process with it."""
    for tensor in (*network.parameters(), *network.buffers()):
        tensor.data = tensor.data.clone()


def hash_weights(network: Any) -> str:
    """Return a hash of a network's weights and their names."""
    import torch

    weights = hashlib.blake2b(digest_size=8)
    for name, tensor in network.state_dict().items():
        weights.update(name.encode())
        weights.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return weights.hexdigest()


def get_prompt(network: Any) -> str:
    """Return the prompt that is put in front of every text."""
    return network.prompts.get(network.default_prompt_name) or "" if network.default_prompt_name else ""
