"""Attention by two products of matrices, one of transformers' attention functions under the name `products`.

On a CPU in bf16 products are quick, and torch's own kernel, which does not use them, takes twice the time or more.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NAME = "products"
ALIGNED = 16  # softmax is slow on rows that do not fill the processor's registers


def use_products(network: Any, *, undo: bool = False) -> None:
    """Have a sentence-transformers network attend by products where it attends by torch's default, or undo this."""
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    before, after = (NAME, "sdpa") if undo else ("sdpa", NAME)
    for model in network.modules():
        if isinstance(model, PreTrainedModel) and model.config._attn_implementation == before:
            model.set_attn_implementation(after)


def attend(
    module: "torch.nn.Module",
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    attention_mask: "Tensor | None",
    scaling: float | None = None,
    **options: Any,
) -> "tuple[Tensor, None]":
    """Compute softmax(query key' scaling) value.

    Attention that is not plain (a gradient, a causal mask or a bias of positions, heads that share keys) is left to torch.

    Parameters
    ----------
    module : torch.nn.Module
        The attention module.
    query, key, value : Tensor of shape (n_batch, n_heads, n, d)
        Queries, keys and values.
    attention_mask : Tensor of bool of shape (n_batch, 1, n, n), or None
        True where a token attends; None for everywhere.
    scaling : float, optional
        By default 1 / sqrt(d).
    **options : dict
        Further options of transformers.

    Returns
    -------
    tuple of (Tensor, None)
        ([b, n, heads, d], None).
    """
    import torch

    causal = options.get("is_causal")
    is_plain = (
        not torch.is_grad_enabled()
        and query.shape == key.shape
        and (attention_mask is None or attention_mask.dtype == torch.bool)
        and not (getattr(module, "is_causal", True) if causal is None else causal)
        and all(options.get(name) is None for name in ("position_bias", "softcap", "cache"))
    )
    if not is_plain:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    return _multiply(query, key, value, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling), None


def _multiply(
    query: "Tensor", key: "Tensor", value: "Tensor", attention_mask: "Tensor | None", scaling: float
) -> "Tensor":
    """Compute plain attention by two products of matrices; [b, n, heads, d]."""
    import torch
    from torch.nn.functional import pad

    b, heads, n, d = query.shape
    width = -(-n // ALIGNED) * ALIGNED
    key, value = (pad(x, (0, 0, 0, width - n)).reshape(b * heads, width, d) for x in (key, value))
    scaled = (query * scaling).reshape(b * heads, n, d)
    scores = torch.bmm(scaled, key.transpose(1, 2)).view(b, heads, n, width)
    if attention_mask is not None or width > n:
        # 0, and the lowest number where nothing attends; [b or 1, 1, n, width]
        lowest = torch.finfo(scores.dtype).min
        if attention_mask is None:
            away = torch.zeros((1, 1, 1, width), dtype=scores.dtype)
        else:
            away = torch.full((len(attention_mask), 1, n, width), lowest, dtype=scores.dtype)
            away[..., :n].masked_fill_(attention_mask, 0)
        away[..., n:] = lowest
        scores += away
    torch.softmax(scores, -1, out=scores)
    output = torch.bmm(scores.view(b * heads, n, width), value)
    return output.view(b, heads, n, d).transpose(1, 2).contiguous()
