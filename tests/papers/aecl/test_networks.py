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
def test_each_text_is_compared_with_all_of_its_view_whatever_their_order(kind: str) -> None:
    torch.manual_seed(0)
    heads, v, order = AeclHeads(12, 3, kind).eval(), torch.randn(2, 9, 12), torch.randperm(9)
    z, h, logits, similarity = heads(v)
    assert similarity.shape == (2, 9, 9) and logits.shape == (2, 9, 3)
    for sums in (similarity.sum(dim=-1), z.norm(dim=-1), h.norm(dim=-1)):
        assert torch.allclose(sums, torch.ones(2, 9))
    in_order = z[:, order], h[:, order], logits[:, order], similarity[:, order][:, :, order]
    for moved, expected in zip(heads(v[:, order]), in_order, strict=True):
        assert torch.allclose(moved, expected, atol=1e-6)
    assert not torch.allclose(logits[:, :5], heads(v[:, :5])[2], atol=1e-4)  # the texts beside it count
    assert torch.allclose(logits[0], heads(v[:1])[2][0], atol=1e-6)  # and those of the other view do not


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
