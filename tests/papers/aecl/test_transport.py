"""Transport of texts to clusters whose sizes are learned, beside a general optimizer."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from traube.papers.aecl.rstc import solve_self_adaptive_transport

N, K = 6, 3


def objective(plan: np.ndarray, cost: np.ndarray, softness: float, evenness: float) -> float:
    sizes = plan.sum(axis=0)
    return float(
        (plan * cost).sum()
        + softness * (plan * (np.log(plan) - 1)).sum()
        - evenness * (np.log(sizes) + np.log(1 - sizes)).sum()
    )


@pytest.mark.parametrize("softness", [0.05, 0.3])
@pytest.mark.parametrize("evenness", [0.01, 0.1, 1.0])
def test_no_other_plan_costs_less(softness: float, evenness: float) -> None:
    cost = np.random.default_rng(0).random((N, K)) * [1.0, 1.0, 0.2]
    plan, sizes = (t.numpy() for t in solve_self_adaptive_transport(torch.from_numpy(cost), softness, evenness))
    assert plan.sum(axis=1) == pytest.approx(1 / N)
    assert plan.sum(axis=0) == pytest.approx(sizes, abs=1e-5)
    assert sizes.sum() == pytest.approx(1)
    general = minimize(
        lambda x: objective(x.reshape(N, K), cost, softness, evenness),
        np.full(N * K, 1 / (N * K)),
        bounds=[(1e-12, 1)] * (N * K),
        constraints={"type": "eq", "fun": lambda x: x.reshape(N, K).sum(axis=1) - 1 / N},
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert objective(plan, cost, softness, evenness) == pytest.approx(general.fun, abs=1e-4)


def test_the_more_unlike_sizes_cost_the_more_even_they_are() -> None:
    cost = torch.tensor([[0.0, 1.0, 1.0]] * 20 + [[1.0, 0.0, 1.0]] * 2 + [[1.0, 1.0, 0.0]] * 2, dtype=torch.float64)
    free, even = (solve_self_adaptive_transport(cost, 0.05, evenness)[1] for evenness in (0.001, 100.0))
    assert free.max() > 0.75
    assert even.max() < 0.4


def test_costs_far_apart_overflow_nothing() -> None:
    plan, _ = solve_self_adaptive_transport(torch.tensor([[0.0, 1e4], [1e4, 0.0]]), 0.01, 0.1)
    assert torch.isfinite(plan).all() and plan.argmax(dim=1).tolist() == [0, 1]
