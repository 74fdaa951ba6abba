"""The networks of the deep clusterers. Whoever needs one imports this module then: it brings torch.

What is trained how is said by the clusterers, in `traube.deep.clusterers`.
"""

import math

from torch import Tensor, nn
from torch.nn import functional


class CodedAttention(nn.Module):
    """AECL's sample attention as its code has it: a whole transformer layer over a batch, whose
    texts are the sequence (one head, biases, residuals with layer norms, a feed-forward part).

    In training the similarity is what is left of it after dropout, as in the code.
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
        """Views of a batch, [views, n, width], to consistent representations of that shape and
        similarities [views, n, n].
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
        """As in `CodedAttention`."""
        scores = self.k1(z) @ self.k2(z).transpose(-1, -2) / math.sqrt(z.shape[-1])
        similarity = scores.softmax(dim=-1)
        return similarity @ self.t(z), similarity


ATTENTIONS = {"coded": CodedAttention, "printed": PrintedAttention}


class AeclHeads(nn.Module):
    """What AECL puts on an encoder: projection G_z, sample attention G_h, clustering network G_p
    (section 3; sizes as in the code).

    Parameters
    ----------
    dimensions : of the encoder's vectors
    k : number of clusters
    attention : key of `ATTENTIONS`
    width : of the projection
    """

    def __init__(self, dimensions: int, k: int, attention: str = "coded", width: int = 128) -> None:
        super().__init__()
        self.project = nn.Sequential(nn.Linear(dimensions, dimensions), nn.ReLU(), nn.Linear(dimensions, width))
        self.attend = ATTENTIONS[attention](width)
        self.assign = nn.Sequential(
            nn.Dropout(0.5),
            nn.Linear(width, dimensions),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(dimensions, dimensions),
            nn.ReLU(),
            nn.Linear(dimensions, k),
        )

    def forward(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Vectors [views, n, dimensions] to unit vectors z and h [views, n, width], logits
        [views, n, k] and similarities [views, n, n].
        """
        z = self.project(v)
        h, similarity = self.attend(z)
        return functional.normalize(z, dim=-1), functional.normalize(h, dim=-1), self.assign(h), similarity
