"""The networks of the deep clusterers.

Import this module only where a network is needed: it imports torch.

The clusterers beside it define how each network is trained.
"""

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

PROJECTED = 128  # dimensions of the contrasted vectors


def adam(learned: Iterable[Any], learning_rate: float, device: torch.device) -> torch.optim.Adam:
    """Return Adam for parameters, or for groups of them with rates of their own.

    It is fused where the device has that: on a CPU, a step takes a fourth of the time.
    """
    return torch.optim.Adam(learned, lr=learning_rate, fused=device.type != "mps")


class CodedAttention(nn.Module):
    """AECL's sample attention as in its code: a whole transformer layer over a batch.

    The batch's texts are the sequence (one head, biases, residuals with layer norms, a feed-forward part).

    In training, dropout is applied to the similarity, as in the code.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 1, dropout=0.1, batch_first=True)
        self.forward_part = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
        )
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.dropout = nn.Dropout(0.1)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map views of a batch to consistent representations and similarities.

        The views and the representations are [views, n, width], the similarities [views, n, n].
        """
        mixed, similarity = self.attention(z, z, z, need_weights=True)
        first = self.norms[0](z + self.dropout(mixed))
        return self.norms[1](first + self.dropout(self.forward_part(first))), similarity


class PrintedAttention(nn.Module):
    """AECL's sample attention as it is printed (equations 1 to 3): three matrices, nothing else."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.k1, self.k2, self.t = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map views of a batch to representations and similarities, as `CodedAttention` does."""
        scores = self.k1(z) @ self.k2(z).transpose(-1, -2) / math.sqrt(z.shape[-1])
        similarity = scores.softmax(dim=-1)
        return similarity @ self.t(z), similarity


ATTENTIONS: dict[str, Callable[[int], nn.Module]] = {"coded": CodedAttention, "printed": PrintedAttention}


class AeclHeads(nn.Module):
    """AECL's projection G_z, sample attention G_h and clustering network G_p (section 3; sizes as in the code)."""

    def __init__(self, dimensions: int, k: int, attention: str = "coded") -> None:
        super().__init__()
        self.project = projection(dimensions)
        self.attend = ATTENTIONS[attention](PROJECTED)
        self.assign = assignment(PROJECTED, dimensions, k)

    def forward(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Map vectors to unit z and h, logits and similarities.

        Vectors are [views, n, dimensions], z and h [views, n, width], logits [views, n, k], similarities [views, n,
        n].
        """
        z = self.project(v)
        h, similarity = self.attend(z)
        return functional.normalize(z, dim=-1), functional.normalize(h, dim=-1), self.assign(h), similarity


def projection(dimensions: int) -> nn.Module:
    """Return the network before the contrast: [n, dimensions] to [n, PROJECTED]."""
    return nn.Sequential(nn.Linear(dimensions, dimensions), nn.ReLU(), nn.Linear(dimensions, PROJECTED))


def assignment(width: int, dimensions: int, k: int) -> nn.Module:
    """Return the network of the clusters' logits: [n, width] to [n, k]."""
    return nn.Sequential(
        nn.Dropout(0.5),
        nn.Linear(width, dimensions),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(dimensions, dimensions),
        nn.ReLU(),
        nn.Linear(dimensions, k),
    )


class Centers(nn.Module):
    """Centers of clusters that move (DEC, Xie et al. 2016): log of Student's t assignments.

    They are all zero until they are set.
    """

    def __init__(self, k: int, dimensions: int) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.zeros(k, dimensions))

    def forward(self, v: Tensor) -> Tensor:
        """Map [n, dimensions] to log q, [n, k]: q of a center falls with 1 + the squared distance."""
        squares = (v[:, None, :] - self.points[None, :, :]).square().sum(dim=2)
        return (-torch.log1p(squares)).log_softmax(dim=1)

    @torch.no_grad()
    def put(self, points: Tensor) -> None:
        """Set the centers, [k, dimensions]."""
        self.points.copy_(points)


class Autoencoder(nn.Module):
    """Fully connected, with leaky ReLU inside, and centers of its codes (Hadifar et al. 2019).

    Parameters
    ----------
    width : int
        Width of the first two layers; the third is four times as wide.
    code : int
        Size of a code.
    """

    def __init__(self, dimensions: int, k: int, width: int, code: int) -> None:
        super().__init__()
        widths = (dimensions, width, width, 4 * width, code)
        self.encode = _layers(widths)
        self.decode = _layers(widths[::-1])
        self.centres = Centers(k, code)  # a key of the states that stopped trainings go on from


def _layers(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        linear = nn.Linear(before, after)
        nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class TextCnn(nn.Module):
    """Two convolutions over a text's word vectors, and the codes that are to be predicted (Xu et al. 2017).

    A network of Kalchbrenner et al. (2014): each dimension of the vectors has filters of its own, dimensions are added in
    pairs (folding), and of each map the greatest values over the text are kept in their order (k-max pooling): half as many
    as the text has words after the first convolution, `LAST` after the second.

    Parameters
    ----------
    vectors : Tensor
        Vectors of the words, [words, dimensions]; the first is that of no word. They are learned too.
    codes : int
        Bits of a code.
    """

    MAPS = (12, 8)  # feature maps of each convolution
    WIDTH = 3  # words that a filter sees
    LAST = 5  # values of a map that are kept in the end

    def __init__(self, vectors: Tensor, codes: int) -> None:
        super().__init__()
        vectors = functional.pad(vectors, (0, -vectors.shape[1] % 4))  # halved twice
        self.words = nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=0)
        rows, (first, second) = vectors.shape[1], self.MAPS
        shape = {"kernel_size": self.WIDTH, "padding": self.WIDTH - 1}
        self.convolutions = nn.ModuleList(
            (
                nn.Conv1d(rows, rows * first, groups=rows, **shape),
                nn.Conv1d(rows // 2 * first, rows // 2 * second, groups=rows // 2, **shape),
            )
        )
        self.dropout = nn.Dropout(0.5)
        self.code = nn.Linear(rows // 4 * second * self.LAST, codes, bias=False)
        for module in (*self.convolutions, self.code):
            nn.init.normal_(module.weight, std=0.05)

    def features(self, words: Tensor) -> Tensor:
        """Map words by number, [n, length], to deep features [n, f]."""
        lengths = (words > 0).sum(dim=1)
        words = words[:, : max(int(lengths.max()), self.LAST)]  # behind the longest text nothing counts
        halves = torch.clamp((lengths + 1) // 2, min=self.LAST)
        x = self.words(words).transpose(1, 2)
        for convolution, kept in zip(self.convolutions, (halves, torch.full_like(lengths, self.LAST)), strict=True):
            # folded: the maps of the second half of the dimensions are added to those of the first, [n, d, length]
            first, second = convolution(x).chunk(2, dim=1)
            x = torch.tanh(_keep_greatest(first + second, lengths + self.WIDTH - 1, kept))
            lengths = kept
        return x.flatten(1)

    def forward(self, words: Tensor) -> Tensor:
        """Map words by number, [n, length], to logits of the codes, [n, codes]."""
        return self.code(self.dropout(self.features(words)))


def _keep_greatest(x: Tensor, lengths: Tensor, kept: Tensor) -> Tensor:
    """Keep the greatest values of each map in their order, of [n, c, length]; zeros where a text keeps fewer.

    Parameters
    ----------
    lengths : Tensor
        Values of a map that are of the text, int64 [n].
    kept : Tensor
        Values of a map that are kept, int64 [n].
    """
    places = torch.arange(x.shape[-1], device=x.device)
    is_text = (places < lengths[:, None])[:, None]
    greatest = x.masked_fill(~is_text, -torch.inf).topk(min(int(kept.max()), x.shape[-1]), dim=-1).indices
    beyond = (torch.arange(greatest.shape[-1], device=x.device) >= torch.minimum(kept, lengths)[:, None])[:, None]
    ordered = greatest.masked_fill(beyond, x.shape[-1]).sort(dim=-1).values
    return functional.pad(x, (0, 1)).gather(-1, ordered)
