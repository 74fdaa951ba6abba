"""Losses of the deep clusterers, on torch tensors.

Sums of exponentials are kept as logarithms, so that no temperature makes them overflow. Equations are AECL's unless
another paper is named; where its text and its code differ, both variants are here, by name. Import this module only
where a loss is needed.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional


def _mask(logits: Tensor, kept: Tensor) -> Tensor:
    return logits.masked_fill(~kept, -math.inf)


class Pairs:
    """Two sets of unit vectors, [n, d] each, compared with each other and within themselves."""

    def __init__(self, first: Tensor, second: Tensor, temperature: float) -> None:
        self.n = len(first)
        rows = torch.cat([first, second])
        self.logits = rows @ rows.T / temperature  # [2n, 2n]; the first n rows are the first set's
        row = torch.arange(2 * self.n, device=rows.device) % self.n
        # log of the sum over all but a row itself and its counterpart, [2n]
        self.log_negatives = _mask(self.logits, row[:, None] != row[None, :]).logsumexp(dim=1)

    @property
    def log_own(self) -> Tensor:
        """Logarithm of the ratio of a row's counterpart to its negatives, [2n] (one term of equation 6)."""
        counterparts = torch.cat([self.logits.diagonal(self.n), self.logits.diagonal(-self.n)])
        return counterparts - self.log_negatives


def guided_contrast_coded(z: Tensor, h: Tensor, similarity: Tensor, predicted: Tensor, temperature: float) -> Tensor:
    """Return L_I as coded: directions are rows of their own; the mean over 2n rows and both views.

    Parameters
    ----------
    z, h : Tensor
        Unit vectors of two views, [2, n, d].
    similarity : Tensor
        Similarities of the sample attention, [2, n, n].
    predicted : Tensor
        Cluster of each text by its first view, int64 [n].
    """
    together = (predicted[:, None] == predicted[None, :]).repeat(2, 2)
    log_own = Pairs(z[0], z[1], temperature).log_own
    terms = []
    for v in (0, 1):
        pairs, weights = Pairs(z[v], h[v], temperature), similarity[v].repeat(2, 2)
        # all four quadrants count, without a row's own on the diagonal; the code adds 1e-5 to every similarity
        weights = weights - torch.diag_embed(weights.diagonal()) + 1e-5
        alike = _mask(pairs.logits + weights.log(), together).logsumexp(dim=1) - pairs.log_negatives
        terms.append(torch.logaddexp(alike, log_own))
    return -torch.stack(terms).mean()


def guided_contrast_printed(z: Tensor, h: Tensor, similarity: Tensor, predicted: Tensor, temperature: float) -> Tensor:
    """Return L_I as printed (equations 6, 7 and 9): both directions of a text inside one logarithm.

    Parameters are those of `guided_contrast_coded`.
    """
    n, together = z.shape[1], predicted[:, None] == predicted[None, :]
    log_own = Pairs(z[0], z[1], temperature).log_own
    terms = []
    for v in (0, 1):
        pairs = Pairs(z[v], h[v], temperature)
        logs = similarity[v].clamp_min(torch.finfo(similarity.dtype).tiny).log()
        across = [pairs.logits[:n, n:], pairs.logits[n:, :n]]  # of the first set with the second and back
        weighted = torch.cat([_mask(block + logs, together) for block in across])
        alike = weighted.logsumexp(dim=1) - pairs.log_negatives
        terms.append(torch.stack([log_own[:n], log_own[n:], alike[:n], alike[n:]]).logsumexp(dim=0))
    return -torch.stack(terms).mean()


def unguided_contrast(z: Tensor, h: Tensor, similarity: Tensor, predicted: Tensor, temperature: float) -> Tensor:
    """Return L_I without equation 7 (table 3, "No IC"): two views of a text are its only positives."""
    return -Pairs(z[0], z[1], temperature).log_own.mean()


def confident_contrast(z: Tensor, p: Tensor, temperature: float, threshold: float) -> Tensor:
    """Return the contrast of CCSSL, the rival of L_I in figure 5 (Yang et al. 2022, section 3).

    Its positives are, besides the other view, the texts of a text's predicted cluster, where both are sure of it: a
    pair weighs the product of their probabilities.

    Parameters
    ----------
    z : Tensor
        Unit vectors of two views, [2, n, d].
    p : Tensor
        Assignments by the first view, [n, k].
    threshold : float
        Probability from which a text is sure.
    """
    n, rows = z.shape[1], torch.cat([z[0], z[1]])
    sureness, predicted = p.detach().max(dim=1)
    passed = sureness * (sureness >= threshold)
    weights = passed[:, None] * passed[None, :] * (predicted[:, None] == predicted[None, :])
    weights = weights.fill_diagonal_(1.0).repeat(2, 2)
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    log_ratios = (rows @ rows.T / temperature).masked_fill(itself, -math.inf).log_softmax(dim=1)
    weights = weights.masked_fill(itself, 0.0)
    drawn = (weights * log_ratios.masked_fill(itself, 0.0)).sum(dim=1) / weights.sum(dim=1)
    return -drawn.mean()


CONTRASTS = {"coded": guided_contrast_coded, "printed": guided_contrast_printed, "unguided": unguided_contrast}


def cross_entropy_contrast(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return InfoNCE over 2n rows, the positive in the denominator (NT-Xent): the mean over rows."""
    pairs = Pairs(functional.normalize(first, dim=1), functional.normalize(second, dim=1), temperature)
    # the positive and the negatives: log of their sum, less the positive
    return functional.softplus(-pairs.log_own).mean()


def cluster_contrast_coded(p: Tensor, temperature: float) -> Tensor:
    """Return L_C as coded.

    Columns of two views' assignments, [2, n, k], are compared, the positive in the denominator.
    """
    return cross_entropy_contrast(p[0].T, p[1].T, temperature)


def cluster_contrast_printed(p: Tensor, temperature: float) -> Tensor:
    """Return L_C as printed (equations 10 and 11): the positive is not in the denominator."""
    first, second = (functional.normalize(view.T, dim=1) for view in p)
    return -Pairs(first, second, temperature).log_own.mean()


CLUSTER_CONTRASTS = {"coded": cluster_contrast_coded, "printed": cluster_contrast_printed}


def sure_cross_entropy(first: Tensor, second: Tensor, threshold: float) -> Tensor:
    """Return L_P (equations 4 and 12), of logits, [n, k].

    This is the cross entropy of the second view with the first view's predictions, where these are surer than the
    threshold; the mean over all texts.
    """
    sureness, labels = first.detach().softmax(dim=1).max(dim=1)
    return ((sureness >= threshold) * functional.cross_entropy(second, labels, reduction="none")).mean()


def mean_entropy(log_p: Tensor) -> Tensor:
    """Return the mean entropy of the rows of [n, k] (equation 5)."""
    return -(log_p.exp() * log_p).sum(dim=1).mean()


def entropy_of_mean(log_p: Tensor) -> Tensor:
    """Return the entropy of the mean row of [n, k], in [0, ln k] (a summand of equation 13)."""
    log_q = log_p.logsumexp(dim=0) - math.log(len(log_p))
    return -(log_q.exp() * log_q).sum()


def entropies_coded(log_p: Tensor, weight_rows: float, weight_mean: float) -> Tensor:
    """Return both entropies with the signs of the code, to be added to the loss.

    The signs are those of the aims that the text states: rows stay soft, and no cluster takes all.

    Parameters
    ----------
    log_p : Tensor
        Logarithms of the assignments of two views, [2, n, k].
    weight_rows, weight_mean : float
        Lambda 3 and lambda 4.
    """
    spread = sum(math.log(log_p.shape[-1]) - entropy_of_mean(view) for view in log_p)
    return weight_mean * spread - weight_rows * mean_entropy(log_p[0])


def entropies_printed(log_p: Tensor, weight_rows: float, weight_mean: float) -> Tensor:
    """Return both entropies as printed (equations 5, 13 and 15): their signs work against the aims."""
    spread = sum(entropy_of_mean(view) for view in log_p) / 2
    return weight_mean * spread + weight_rows * mean_entropy(log_p[0])


ENTROPIES = {"coded": entropies_coded, "printed": entropies_printed}


def sharpen(q: Tensor) -> Tensor:
    """Return the target of self-training, [n, k].

    Assignments are squared and divided by the size of their cluster (DEC, equation 3).
    """
    weights = q.square() / q.sum(dim=0)
    return weights / weights.sum(dim=1, keepdim=True)


def divergence(p: Tensor, log_q: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of p from q, the mean over rows of [n, k] (DEC, equation 2)."""
    return functional.kl_div(log_q, p, reduction="batchmean")
