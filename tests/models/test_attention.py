"""Attention by products of matrices gives what torch's own gives, whatever the architecture."""

from typing import Any

import pytest
import torch

from traube.models._attention import NAME, use_products

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 50}
ENCODERS = ("bert", "roberta", "xlm-roberta", "electra", "modernbert", "mpnet", "deberta-v2", "distilbert", "albert")
CAUSAL = ("qwen3", "llama")  # a mask of their own, and heads that share keys


def network(architecture: str) -> Any:
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    shared = {"num_key_value_heads": 2, "head_dim": 8} if architecture in CAUSAL else {}
    return AutoModel.from_config(AutoConfig.for_model(architecture, pad_token_id=0, **SMALL, **shared)).eval()


def hidden(model: Any, padded: bool) -> torch.Tensor:
    torch.manual_seed(1)
    mask = torch.ones((3, 21), dtype=torch.long)
    if padded:
        mask[1, 15:], mask[2, 1:] = 0, 0
    tokens = torch.randint(4, 50, (3, 21)) * mask
    found: torch.Tensor = model(input_ids=tokens, attention_mask=mask).last_hidden_state
    return found * mask[..., None]


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("architecture", [*ENCODERS, *CAUSAL])
def test_every_architecture_gives_the_same_vectors(architecture: str, padded: bool) -> None:
    model = network(architecture)
    with torch.no_grad():
        before = hidden(model, padded)
        use_products(model)
        torch.testing.assert_close(hidden(model, padded), before, rtol=1e-4, atol=1e-5)


def test_the_common_encoders_do_attend_by_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one of them falls back to torch's kernel when it encodes; what learns does."""
    kernel, used = torch.nn.functional.scaled_dot_product_attention, []
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: (used.append(1), kernel(*a, **k))[1]
    )
    for architecture in ("bert", "roberta", "xlm-roberta", "distilbert"):
        model = network(architecture)
        use_products(model)
        assert model.config._attn_implementation == NAME
        with torch.no_grad():
            hidden(model, padded=True)
        assert not used, architecture
        hidden(model, padded=True).sum().backward()
        assert used, architecture
        used.clear()
    assert network("bert").config._attn_implementation == "sdpa"  # others are not changed


def test_torchs_kernel_is_taken_up_again() -> None:
    model = network("bert")
    with torch.no_grad():
        before = hidden(model, padded=True)
        use_products(model)
        use_products(model, undo=True)
        torch.testing.assert_close(hidden(model, padded=True), before, rtol=0, atol=0)
    assert model.config._attn_implementation == "sdpa"


def test_a_gradient_is_that_of_torchs_kernel() -> None:
    gradients = []
    for change in (lambda model: None, use_products):
        model = network("bert")
        change(model)
        hidden(model, padded=True).square().sum().backward()
        gradients.append(model.encoder.layer[0].attention.self.query.weight.grad)
    torch.testing.assert_close(*gradients)
