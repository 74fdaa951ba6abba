"""Texts in batches of like length. Each text is tokenized once, and the next block of texts while one is computed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from traube._core.arrays import Ints
from traube.models.vectors import Dense

# A block is tokenized at once, and sorted: its tokens are held, no others.
TEXTS_A_BLOCK = 16_384
CHARACTERS_A_BLOCK = 2**22
CHARACTERS_A_TOKEN = (
    8  # of which no text has more, about: what is beyond the tokens that a network reads is not counted
)
RAGGED = {"text": {"padding": False}, "common": {"return_tensors": None}}
FILLERS = {"attention_mask": 0, "special_tokens_mask": 1}

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Tokens:
    """Tokens of texts, and all else that a network reads of them."""

    columns: Mapping[str, list[NDArray[np.int32]]]  # by name: of each text, as many numbers as it has tokens
    fillers: Mapping[str, int]  # what a shorter text is padded with
    left: bool  # whether padding stands in front
    others: Mapping[str, Any]  # what is the same for all texts

    def take(self, rows: slice | Ints) -> "Tokens":
        """Return those of some texts."""
        chosen = np.arange(len(self.columns["input_ids"]))[rows]
        columns = {name: [values[row] for row in chosen] for name, values in self.columns.items()}
        return Tokens(columns, self.fillers, self.left, self.others)

    def pad(self) -> dict[str, Any]:
        """Return the features of the texts: tensors [n, longest], and what is the same for all texts."""
        import torch

        features = dict(self.others)
        for name, values in self.columns.items():
            width = max(map(len, values))
            matrix = np.full((len(values), width), self.fillers.get(name, 0), dtype=np.int64)
            for line, ids in zip(matrix, values, strict=True):
                line[width - len(ids) if self.left else 0 :][: len(ids)] = ids
            features[name] = torch.from_numpy(matrix)
        return features


@dataclass(frozen=True)
class Block:
    """Some of the texts, the longest first."""

    positions: Ints  # among all texts
    texts: list[str]
    lengths: Ints  # tokens of each, at least 1
    tokens: Tokens | None  # None where the network itself has to see the texts

    def cut(self, start: int, budget: int) -> slice:
        """Return the rows of the batch that begins at a row: as many as the budget of padded tokens has room for."""
        return slice(start, min(start + max(1, budget // int(self.lengths[start])), len(self.lengths)))

    def take(self, rows: slice | Ints) -> "Block":
        """Return some of the rows, as a block."""
        texts = [self.texts[row] for row in np.arange(len(self.texts))[rows]]
        return Block(self.positions[rows], texts, self.lengths[rows], self.tokens and self.tokens.take(rows))


@dataclass(frozen=True)
class Sent:
    """Vectors of a batch, which a GPU may still be computing."""

    vectors: Dense
    arrival: Any = None  # a CUDA event

    def wait(self) -> Dense:
        """Return the vectors when all are there."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return self.vectors


def cut_blocks(texts: Sequence[str], max_length: int | None) -> Iterator[Ints]:
    """Yield the positions of texts block by block, ascending; the first block has those of most characters."""
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    if max_length:
        sizes = np.minimum(sizes, CHARACTERS_A_TOKEN * max_length)
    order = np.argsort(-sizes, kind="stable")
    start, ends = 0, np.cumsum(sizes[order])
    while start < len(order):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + CHARACTERS_A_BLOCK, "right"))
        stop = min(max(stop, start + 1), start + TEXTS_A_BLOCK)
        yield np.sort(order[start:stop])
        start = stop


def make_block(network: Any, texts: Sequence[str], positions: Ints, prompt: str) -> Block:
    """Return a block of the texts at some positions, tokenized."""
    some = [texts[i] for i in positions]
    tokens = tokenize(network, some, prompt) if reads_tokens(network) else None
    if tokens is None:
        lengths = measure_lengths(network.tokenizer, [prompt + text for text in some])
    else:
        lengths = np.array(list(map(len, tokens.columns["input_ids"])), dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    return Block(positions, some, np.maximum(lengths, 1), tokens).take(order)


def reads_tokens(network: Any) -> bool:
    """Return whether the vectors of a network follow from the tokens of each text alone, as sentence-transformers encodes.

    Anything else (words' or static vectors, templates of chats, several ways in one network, a class of somebody's own)
    is left to the network's `encode`.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer as Body
    from transformers import PreTrainedTokenizerBase

    if type(network) is not SentenceTransformer or type(network[0]) is not Body or network.truncate_dim is not None:
        return False
    body = network[0]
    return (
        isinstance(body.processor, PreTrainedTokenizerBase)
        and body.processor.pad_token_id is not None
        and body.transformer_task == "feature-extraction"
        and "message" not in body.modality_config
        and not body.processing_kwargs
        and not body.can_flatten_inputs
    )


def tokenize(network: Any, texts: list[str], prompt: str) -> Tokens:
    """Return the tokens of texts, made by the network itself, without padding."""
    made = dict(network.preprocess(texts, prompt=prompt or None, processing_kwargs=RAGGED))
    names = [name for name in made if isinstance(made[name], list)]
    columns = {name: [np.array(ids, dtype=np.int32) for ids in made.pop(name)] for name in names}
    tokenizer = network.tokenizer
    fillers = {**FILLERS, "input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    return Tokens(columns, fillers, tokenizer.padding_side == "left", made)


def compute(network: Any, tokens: Tokens) -> Sent:
    """Return the vectors of texts, float32 [n, d]; a GPU goes on computing while they leave it."""
    import torch

    with torch.inference_mode():
        device = network.device
        on_gpu = device.type == "cuda"
        features = {
            name: (value.pin_memory() if on_gpu else value).to(device, non_blocking=True)
            if isinstance(value, torch.Tensor)
            else value
            for name, value in tokens.pad().items()
        }
        vectors = network(features)["sentence_embedding"].float()
        if not on_gpu:
            return Sent(vectors.cpu().numpy())
        here = torch.empty(vectors.shape, pin_memory=True)
        here.copy_(vectors, non_blocking=True)
        arrival = torch.cuda.Event()
        arrival.record()
        return Sent(here.numpy(), arrival)


def measure_lengths(tokenizer: Any, texts: list[str]) -> Ints:
    """Return the number of tokens of each text, int64 [n]; without a tokenizer of a known kind, a number that grows with it."""
    if hasattr(tokenizer, "encode_batch"):
        return np.array([len(encoding.ids) for encoding in tokenizer.encode_batch(texts)], dtype=np.int64)
    if callable(tokenizer):
        return np.array(list(map(len, tokenizer(texts, truncation=True)["input_ids"])), dtype=np.int64)
    return np.array([len(text.split()) for text in texts], dtype=np.int64)


def compute_ahead(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield what a function makes of each item, where a thread is at the next one already."""
    with ThreadPoolExecutor(1, "tokenizing") as executor:
        following: Future[R] | None = None
        for item in items:
            current, following = following, executor.submit(function, item)
            if current is not None:
                yield current.result()
        if following is not None:
            yield following.result()
