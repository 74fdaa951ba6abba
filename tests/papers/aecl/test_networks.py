"""The networks on top of an encoder."""

import pytest
import torch
from torch import nn

from traube.papers.aecl.networks import ATTENTIONS, AeclHeads, TextCnn, _keep_greatest


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_aecls_heads_are_as_large_as_its_code_and_its_paper_say() -> None:
    """67.9 million with the 66,362,880 of DistilBERT, and a 256 x 128 layer that its code never uses."""
    heads = AeclHeads(768, 8, "coded")
    assert parameters(heads) == 1_517_320
    unused = nn.Linear(256, 128)
    assert (parameters(heads) + parameters(unused) + 66_362_880) / 1e6 == pytest.approx(67.913, abs=5e-4)
    assert parameters(AeclHeads(768, 8, "printed")) < parameters(heads)


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_each_text_is_compared_with_all_and_its_similarities_add_up_to_one(kind: str) -> None:
    torch.manual_seed(0)
    heads = AeclHeads(12, 3, kind).eval()
    z, h, logits, similarity = heads(torch.randn(2, 9, 12))
    assert similarity.shape == (2, 9, 9)
    assert torch.allclose(similarity.sum(dim=-1), torch.ones(2, 9))
    assert torch.allclose(z.norm(dim=-1), torch.ones(2, 9)) and torch.allclose(h.norm(dim=-1), torch.ones(2, 9))
    assert logits.shape == (2, 9, 3)


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_the_order_of_a_batch_only_orders_what_comes_out(kind: str) -> None:
    torch.manual_seed(0)
    heads, v, order = AeclHeads(12, 3, kind).eval(), torch.randn(1, 9, 12), torch.randperm(9)
    z, h, logits, similarity = heads(v)
    moved = heads(v[:, order])
    assert torch.allclose(moved[0], z[:, order], atol=1e-6)
    assert torch.allclose(moved[1], h[:, order], atol=1e-6)
    assert torch.allclose(moved[2], logits[:, order], atol=1e-6)
    assert torch.allclose(moved[3], similarity[:, order][:, :, order], atol=1e-6)


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_what_a_text_is_assigned_to_depends_on_the_texts_beside_it(kind: str) -> None:
    torch.manual_seed(0)
    heads, v = AeclHeads(12, 3, kind).eval(), torch.randn(1, 9, 12)
    assert not torch.allclose(heads(v)[2][:, :5], heads(v[:, :5])[2], atol=1e-4)


def test_two_views_do_not_see_each_other() -> None:
    torch.manual_seed(0)
    heads, v = AeclHeads(12, 3).eval(), torch.randn(2, 9, 12)
    together = heads(v)[2]
    assert torch.allclose(together[0], heads(v[:1])[2][0], atol=1e-6)


@pytest.mark.parametrize(("lengths", "kept"), [([7, 3, 1], [4, 5, 5]), ([2, 7, 6], [2, 2, 2])])
def test_the_greatest_values_of_a_text_stay_in_their_order(lengths: list[int], kept: list[int]) -> None:
    x = torch.randn(3, 4, 7, generator=torch.Generator().manual_seed(0))
    pooled = _keep_greatest(x, torch.tensor(lengths), torch.tensor(kept))
    assert pooled.shape == (3, 4, max(kept))
    for i, (length, most) in enumerate(zip(lengths, kept, strict=True)):
        for channel in range(4):
            values = x[i, channel, :length].tolist()
            best = sorted(values, reverse=True)[:most]
            expected = [value for value in values if value in best]
            assert pooled[i, channel].tolist() == expected + [0.0] * (max(kept) - len(expected))


def test_stccs_network_has_the_features_of_its_code_and_sees_nothing_behind_a_text() -> None:
    torch.manual_seed(0)
    vectors = torch.cat([torch.zeros(1, 48), torch.randn(8, 48)])  # 48 dimensions, folded twice
    network = TextCnn(vectors, 20).eval()
    words = torch.tensor([[3, 1, 4, 1, 5, 0, 0, 0], [2, 6, 5, 3, 5, 8, 7, 1]])
    features = network.features(words)
    assert features.shape == (2, 12 * 8 * 5) and network(words).shape == (2, 20)
    assert torch.allclose(features[:1], network.features(words[:1, :5]), atol=1e-6)
    assert not torch.allclose(features[:1], network.features(words[:1].flip(1)), atol=1e-3)
