"""The networks of trained similarities (QS3M, section 3), by torch: import this module where one is needed.

`forward` takes the pairs of a batch, [b] from two passages each, [b, m], and the query's vector, [b, d]; `page` takes
all pairs of a page, [n, n] from [n, m] and [d]; both give the same. `logits` is `forward` before the last activation.
`begin_as_distance` sets weights with which a network is a distance of the vectors, to be improved from little data. A
passage is a vector, float32 [d], or, for attention, its own vector and those of its sentences, float32 [(1 + m) d].
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

HIDDEN = 32  # of QSS and of attention, as in the paper's code
# Scale of the initial weights of a comparison that begins as a distance, and of QSS's cosines as logits:
# with these values most pairs of unit vectors lie where a sigmoid is steep.
SLOPE, HEIGHT = 0.5, 3.0
STEEPNESS, MIDDLE = 10.0, 0.5

Projection = Literal["coded", "printed"]
Output = Literal["relu", "sigmoid"]


class Qss(nn.Module):
    """Query-specific scaling (section 3.1.1): the query scales each dimension; the similarity is the cosine after it."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(dimensions, HIDDEN)
        self.expand = nn.Parameter(torch.randn(HIDDEN, dimensions))

    def begin_as_distance(self) -> None:
        """Initialize the weights so that every dimension counts the same, whatever the query; the similarity is the cosine."""
        with torch.no_grad():
            self.reduce.bias.fill_(1.0)
            self.expand.fill_(1 / HIDDEN)

    def _scale(self, query: Tensor) -> Tensor:
        return functional.relu(self.reduce(query)) @ self.expand

    @override
    def forward(self, first: Tensor, second: Tensor, query: Tensor | None) -> Tensor:
        assert query is not None
        scale = self._scale(query)
        return functional.cosine_similarity(scale * first, scale * second, dim=-1)

    def logits(self, first: Tensor, second: Tensor, query: Tensor | None) -> Tensor:
        """Return the cosine, [b], spread over the range in which a sigmoid decides."""
        return STEEPNESS * (self(first, second, query) - MIDDLE)

    def page(self, passages: Tensor, query: Tensor | None) -> Tensor:
        """Return similarities of all pairs of a page, [n, n]."""
        assert query is not None
        scaled = functional.normalize(self._scale(query) * passages, dim=-1)
        return scaled @ scaled.T


class Qs3mNetwork(nn.Module):
    """QS3M (section 3.1.2): one layer looks at two projected passages, how they differ, and how each does from the query.

    Parameters
    ----------
    dimensions : int
        Number of dimensions of the vectors.
    with_query : bool
        False for the ablation that knows no query.
    projection : {"coded", "printed"}
        `coded`: two layers with one ReLU after them, as in the paper's code; `printed`: one after each.
    output : {"relu", "sigmoid"}
        `relu`, as in the code, or `sigmoid`.
    """

    def __init__(self, dimensions: int, with_query: bool, projection: Projection, output: Output) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(dimensions, dimensions), nn.Linear(dimensions, dimensions), nn.ReLU()]
        if projection == "printed":
            layers.insert(1, nn.ReLU())
        self.project = nn.Sequential(*layers)
        self.compare = nn.Linear(dimensions * (5 if with_query else 3), 1)
        self.with_query = with_query
        self.output = output

    def begin_as_distance(self) -> None:
        """Initialize the weights so that the projection changes only signs, and the comparison is a Manhattan distance."""
        dimensions = self.compare.in_features // (5 if self.with_query else 3)
        with torch.no_grad():
            for layer in self.project:
                if isinstance(layer, nn.Linear):
                    layer.weight.copy_(torch.eye(dimensions))
                    layer.bias.zero_()
            self.compare.weight.zero_()
            self.compare.weight[0, 2 * dimensions : 3 * dimensions] = -SLOPE
            self.compare.bias.fill_(HEIGHT)

    def logits(self, first: Tensor, second: Tensor, query: Tensor | None) -> Tensor:
        """Return logits of pairs, [b], from the projected passages and their differences."""
        one, other = self.project(first), self.project(second)
        features = [one, other, (one - other).abs()]
        if self.with_query:
            assert query is not None
            wanted = self.project(query)
            features += [(one - wanted).abs(), (other - wanted).abs()]
        return self.compare(torch.cat(features, dim=-1)).squeeze(-1)

    def activate(self, logits: Tensor) -> Tensor:
        """Return similarities, by ReLU or the sigmoid, of logits of shape (n_pairs,)."""
        return functional.relu(logits) if self.output == "relu" else torch.sigmoid(logits)

    @override
    def forward(self, first: Tensor, second: Tensor, query: Tensor | None) -> Tensor:
        return self.activate(self.logits(first, second, query))

    def page(self, passages: Tensor, query: Tensor | None) -> Tensor:
        """Compare all pairs of a page.

        All but |one - other| is summed for each passage by itself; the rest is a weighted Manhattan distance.
        """
        projected = self.project(passages)
        weights = self.compare.weight[0].split(projected.shape[1])
        first, second = projected @ weights[0], projected @ weights[1]
        if self.with_query:
            assert query is not None
            apart = (projected - self.project(query)).abs()
            first, second = first + apart @ weights[3], second + apart @ weights[4]
        # signed weights: the distance by the positive ones less that by the negative ones
        up, down = projected * weights[2].clamp(min=0), projected * weights[2].clamp(max=0)
        manhattan = torch.cdist(up, up, p=1) - torch.cdist(down, down, p=1)
        return self.activate(first[:, None] + second[None, :] + manhattan + self.compare.bias)


class Attention(nn.Module):
    """Attention (section 3.1.3): QS3M compares mean sentences, weighted by how much each has to do with the query.

    Parameters
    ----------
    dimensions : int
        Number of dimensions of the vectors.
    head : Qs3mNetwork
        The network that compares the mean sentences.
    masked : bool
        False gives absent sentences a share of the attention too, as the paper's code does.
    """

    def __init__(self, dimensions: int, head: Qs3mNetwork, masked: bool) -> None:
        super().__init__()
        self.attend = nn.Linear(2 * dimensions, HIDDEN, bias=False)
        self.weigh = nn.Linear(HIDDEN, 1, bias=False)
        self.head = head
        self.dimensions = dimensions
        self.masked = masked

    def begin_as_distance(self) -> None:
        """Initialize the weights so that a passage is the plain mean of its sentences, compared as by the head's first weights."""
        self.head.begin_as_distance()
        with torch.no_grad():
            self.weigh.weight.zero_()

    def pool(self, passages: Tensor, query: Tensor) -> Tensor:
        """Return a vector for each passage, [b, d], from [b, (1 + m) d] and [b, d] or [d]; zeros for one without sentences."""
        sentences = passages.unflatten(-1, (-1, self.dimensions))[:, 1:]
        wanted = query.expand(len(passages), -1)[:, None].expand_as(sentences)
        there = (sentences != 0).any(dim=-1)
        scores = self.weigh(torch.tanh(self.attend(torch.cat([wanted, sentences], dim=-1)))).squeeze(-1) * there
        if self.masked:
            absent = ~there & there.any(dim=-1, keepdim=True)  # if all are absent, the softmax would be NaN
            scores = scores.masked_fill(absent, float("-inf"))
        return (scores.softmax(dim=-1)[..., None] * sentences).sum(dim=1)

    def logits(self, first: Tensor, second: Tensor, query: Tensor | None) -> Tensor:
        """Return logits of pairs, [b], of passages that attend to the query."""
        assert query is not None
        return self.head.logits(self.pool(first, query), self.pool(second, query), query)

    @override
    def forward(self, first: Tensor, second: Tensor, query: Tensor | None) -> Tensor:
        return self.head.activate(self.logits(first, second, query))

    def page(self, passages: Tensor, query: Tensor | None) -> Tensor:
        """Return similarities of all pairs of a page, [n, n]."""
        assert query is not None
        return self.head.page(self.pool(passages, query), query)
