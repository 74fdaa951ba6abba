"""The losses, each beside a slow reference that is written from the equations, sum by sum."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from traube.papers.aecl import losses

N, K, WIDTH = 7, 3, 5
CASES = st.tuples(st.integers(0, 10_000), st.floats(0.05, 2.0))


def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unit vectors z and h of two views, similarities whose rows add up to 1, and predicted clusters."""
    generator = torch.Generator().manual_seed(seed)
    z, h = (torch.randn(2, N, WIDTH, generator=generator, dtype=torch.float64) for _ in range(2))
    z, h = z / z.norm(dim=-1, keepdim=True), h / h.norm(dim=-1, keepdim=True)
    similarity = torch.randn(2, N, N, generator=generator, dtype=torch.float64).softmax(dim=-1)
    return z, h, similarity, torch.randint(K, (N,), generator=generator)


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def negatives(i: int, own: torch.Tensor, other: torch.Tensor, t: float) -> float:
    """The denominators of equations 6 and 7."""
    return sum(
        math.exp(cosine(own[i], own[k]) / t) + math.exp(cosine(own[i], other[k]) / t) for k in range(N) if k != i
    )


def own_ratio(i: int, a: torch.Tensor, b: torch.Tensor, t: float) -> float:
    """One term of equation 6."""
    return math.exp(cosine(a[i], b[i]) / t) / negatives(i, a, b, t)


def printed_ratio(i: int, a: torch.Tensor, b: torch.Tensor, s: torch.Tensor, y: torch.Tensor, t: float) -> float:
    """One term of equation 7."""
    alike = sum(float(s[i, j]) * math.exp(cosine(a[i], b[j]) / t) for j in range(N) if y[j] == y[i])
    return alike / negatives(i, a, b, t)


def coded_ratio(row: int, a: torch.Tensor, b: torch.Tensor, s: torch.Tensor, y: torch.Tensor, t: float) -> float:
    """The same as the paper's code has it."""
    both, alike, below = torch.cat([a, b]), 0.0, 0.0
    for column in range(2 * N):
        i, j = row % N, column % N
        e = math.exp(cosine(both[row], both[column]) / t)
        weight = 0.0 if row == column else float(s[i, j])
        alike += e * (weight + 1e-5) * float(y[i] == y[j])
        below += e if i != j else 0.0
    return alike / below


@settings(max_examples=10, deadline=None)
@given(CASES)
def test_the_guided_contrast_as_printed_is_equations_6_7_and_9(case: tuple[int, float]) -> None:
    seed, t = case
    z, h, s, y = drawn(seed)
    total = 0.0
    for i in range(N):
        own = own_ratio(i, z[0], z[1], t) + own_ratio(i, z[1], z[0], t)
        for v in (0, 1):
            alike = printed_ratio(i, z[v], h[v], s[v], y, t) + printed_ratio(i, h[v], z[v], s[v], y, t)
            total -= math.log(own + alike)
    assert float(losses.guided_contrast_printed(z, h, s, y, t)) == pytest.approx(total / (2 * N), rel=1e-9)


@settings(max_examples=10, deadline=None)
@given(CASES)
def test_the_guided_contrast_as_coded_counts_directions_apart_and_all_four_quadrants(case: tuple[int, float]) -> None:
    seed, t = case
    z, h, s, y = drawn(seed)
    total = 0.0
    for v in (0, 1):
        for row in range(2 * N):
            i = row % N
            own = own_ratio(i, z[0], z[1], t) if row < N else own_ratio(i, z[1], z[0], t)
            total -= math.log(coded_ratio(row, z[v], h[v], s[v], y, t) + own)
    assert float(losses.guided_contrast_coded(z, h, s, y, t)) == pytest.approx(total / (4 * N), rel=1e-9)


def test_without_guidance_only_a_texts_other_view_is_like_it() -> None:
    z, h, s, y = drawn(0)
    literal = [-math.log(own_ratio(i, z[a], z[1 - a], 0.5)) for a in (0, 1) for i in range(N)]
    assert float(losses.unguided_contrast(z, h, s, y, 0.5)) == pytest.approx(np.mean(literal))
    assert float(losses.unguided_contrast(z, h * 0, s * 0, y * 0, 0.5)) == pytest.approx(np.mean(literal))


@settings(max_examples=10, deadline=None)
@given(CASES)
def test_the_contrast_with_a_confidence_filter_adds_sure_texts_of_one_cluster(case: tuple[int, float]) -> None:
    seed, t = case
    z, _, s, _ = drawn(seed)
    p = (3 * s[0, :, :K]).softmax(dim=1)  # some texts are above the threshold, others are not
    threshold, rows, total = float(p.max(dim=1).values.median()), torch.cat([z[0], z[1]]), 0.0
    for row in range(2 * N):
        below = sum(math.exp(cosine(rows[row], rows[other]) / t) for other in range(2 * N) if other != row)
        weighted, weights = 0.0, 0.0
        for other in set(range(2 * N)) - {row}:
            i, j = row % N, other % N
            sure = p[i].max() >= threshold and p[j].max() >= threshold and p[i].argmax() == p[j].argmax()
            weight = 1.0 if i == j else float(p[i].max() * p[j].max() * sure)
            weighted += weight * math.log(math.exp(cosine(rows[row], rows[other]) / t) / below)
            weights += weight
        total -= weighted / weights
    assert float(losses.confident_contrast(z, p, t, threshold)) == pytest.approx(total / (2 * N), rel=1e-9)
    # where nobody is sure, it is the plain contrast of two views
    assert float(losses.confident_contrast(z, p, t, 1.1)) == pytest.approx(
        float(losses.cross_entropy_contrast(z[0], z[1], t))
    )


@settings(max_examples=10, deadline=None)
@given(CASES)
def test_the_contrast_of_clusters_compares_columns(case: tuple[int, float]) -> None:
    seed, t = case
    p = torch.randn(2, N, K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(dim=-1)
    printed, coded = 0.0, 0.0
    for i in range(K):
        for a, b in ((p[0], p[1]), (p[1], p[0])):
            positive = math.exp(cosine(a[:, i], b[:, i]) / t)
            others = sum(
                math.exp(cosine(a[:, i], a[:, k]) / t) + math.exp(cosine(a[:, i], b[:, k]) / t)
                for k in range(K)
                if k != i
            )
            printed -= math.log(positive / others)
            coded -= math.log(positive / (positive + others))
    assert float(losses.cluster_contrast_printed(p, t)) == pytest.approx(printed / (2 * K))
    assert float(losses.cluster_contrast_coded(p, t)) == pytest.approx(coded / (2 * K))


def test_labels_are_learned_only_where_the_first_view_is_surer_than_the_threshold() -> None:
    p = torch.tensor([[0.97, 0.02, 0.01], [0.5, 0.3, 0.2], [0.01, 0.96, 0.03]])
    q = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.7, 0.2, 0.1]])
    first, second = p.log().requires_grad_(), q.log().requires_grad_()
    loss = losses.sure_cross_entropy(first, second, 0.95)
    assert float(loss) == pytest.approx((-math.log(0.6) - math.log(0.2)) / 3)  # the mean over all three
    loss.backward()
    assert first.grad is None  # a label is no target that moves
    assert torch.equal((second.grad != 0).any(dim=1), torch.tensor([True, False, True]))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_entropies_have_the_signs_of_their_aims_or_the_printed_ones(seed: int, rows: float, mean: float) -> None:
    logits = torch.randn(2, N, K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3
    p = logits.softmax(dim=-1)
    of_rows = -sum(float(p[0, i, j]) * math.log(p[0, i, j]) for i in range(N) for j in range(K)) / N
    of_mean = [-sum(float(q) * math.log(q) for q in p[v].mean(dim=0)) for v in (0, 1)]
    log_p = logits.log_softmax(dim=-1)
    coded = mean * sum(math.log(K) - h for h in of_mean) - rows * of_rows
    assert float(losses.entropies_coded(log_p, rows, mean)) == pytest.approx(coded, abs=1e-9)
    printed = mean * sum(of_mean) / 2 + rows * of_rows
    assert float(losses.entropies_printed(log_p, rows, mean)) == pytest.approx(printed, abs=1e-9)


def test_even_clusters_cost_nothing_and_one_cluster_costs_ln_k_a_view() -> None:
    even = torch.full((2, N, K), math.log(1 / K), dtype=torch.float64)
    assert float(losses.entropies_coded(even, 0.0, 1.0)) == pytest.approx(0, abs=1e-12)
    one = torch.log_softmax(torch.tensor([50.0, 0.0, 0.0], dtype=torch.float64), dim=0).expand(2, N, K)
    assert float(losses.entropies_coded(one, 0.0, 1.0)) == pytest.approx(2 * math.log(K))
    # with the printed signs it is the other way round: one cluster is what pays
    assert float(losses.entropies_printed(one, 0.0, 1.0)) < float(losses.entropies_printed(even, 0.0, 1.0))


@pytest.mark.parametrize("contrast", losses.CONTRASTS.values(), ids=losses.CONTRASTS.keys())
@pytest.mark.parametrize("temperature", [1e-4, 1e3])
def test_no_temperature_makes_a_contrast_overflow(contrast, temperature: float) -> None:
    z, h, s, y = (value.float() if value.is_floating_point() else value for value in drawn(3))
    z.requires_grad_()
    loss = contrast(z, h, s, y, temperature)
    loss.backward()
    assert math.isfinite(float(loss.detach()))
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("contrast", losses.CONTRASTS.values(), ids=losses.CONTRASTS.keys())
def test_the_order_of_a_batch_changes_no_loss(contrast) -> None:
    z, h, s, y = drawn(4)
    order = torch.randperm(N)
    moved = contrast(z[:, order], h[:, order], s[:, order][:, :, order], y[order], 0.5)
    assert float(moved) == pytest.approx(float(contrast(z, h, s, y, 0.5)), rel=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 2.0))
def test_nt_xent_of_sccl_and_rstc_has_the_positive_in_its_denominator(seed: int, t: float) -> None:
    a, b = torch.randn(2, N, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    total = 0.0
    for i in range(N):
        for own, other in ((a, b), (b, a)):
            positive = math.exp(cosine(own[i], other[i]) / t)
            total -= math.log(positive / (positive + negatives(i, own, other, t)))
    assert float(losses.cross_entropy_contrast(a, b, t)) == pytest.approx(total / (2 * N))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_self_training_sharpens_students_t_assignments(seed: int) -> None:
    from traube.papers.aecl.networks import Centers

    generator = torch.Generator().manual_seed(seed)
    points, centers = torch.randn(N, WIDTH, generator=generator), Centers(K, WIDTH)
    centers.put(torch.randn(K, WIDTH, generator=generator))
    q = np.empty((N, K))
    for i in range(N):
        weights = [1 / (1 + float((points[i] - center).square().sum())) for center in centers.points.detach()]
        q[i] = np.array(weights) / sum(weights)
    p = np.array([[q[i, j] ** 2 / q[:, j].sum() for j in range(K)] for i in range(N)])
    p /= p.sum(axis=1, keepdims=True)
    log_q = centers(points).detach()
    assert log_q.exp().numpy() == pytest.approx(q, rel=1e-4)
    assert losses.sharpen(log_q.exp()).numpy() == pytest.approx(p, rel=1e-3)
    divergence = sum(p[i, j] * math.log(p[i, j] / q[i, j]) for i in range(N) for j in range(K)) / N
    assert float(losses.divergence(losses.sharpen(log_q.exp()), log_q)) == pytest.approx(divergence, rel=1e-3, abs=1e-6)
