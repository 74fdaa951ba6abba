"""Causal language models, which continue a prompt."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from traube._core.errors import Failed, Malformed, Missing
from traube._core.hashing import file_sha256
from traube._core.inputs import is_file, resolve_path
from traube.models._model_files import ModelFile
from traube.models.language import load_language_model
from traube.models.transformer import best_device
from traube.models.vetting import VettedFolder, library_errors
from traube.models.weights import FILTER, is_path

# How models that were made for talks are prompted, by a mark in their templates. A template is a program, and is not run.
TALKS = {
    "<|im_start|>": "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
    "<|start_header_id|>": (
        "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "<start_of_turn>": "<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n",
    "<|user|>": "<|user|>\n{}<|end|>\n<|assistant|>\n",
    "[INST]": "[INST] {} [/INST]",
}
LONGEST_TEMPLATE = 2**20  # bytes
LONGEST = 2**15  # tokens of a prompt, whatever a model says


def _read_template(folder: Path) -> str:
    """Return the template of a model for talks, as a text; an empty one if there is none."""
    settings, template_file = ModelFile(folder, "tokenizer_config.json"), ModelFile(folder, "chat_template.jinja")
    template = str(settings.parse().get("chat_template") or "") if is_file(settings.path) else ""
    if is_file(template_file.path):
        template += template_file.read(LONGEST_TEMPLATE).decode("utf-8", "replace")
    return template


@dataclass(eq=False)
class CausalModel:
    """A causal language model of transformers (`AutoModelForCausalLM`), in evaluation mode.

    Attributes
    ----------
    model : PreTrainedModel
        The network.
    tokenizer : PreTrainedTokenizer
        Its tokenizer.
    name : str, default="model"
        Name for errors.
    talk : str, default="{}"
        The form in which the model is prompted, with `{}` for the question.
    content : sequence of str, optional
        Hashes of the files that it was loaded from.
    """

    longest_reply: ClassVar[int] = 16  # tokens; a model that was not made for talks does not end by itself

    model: Any
    tokenizer: Any
    name: str = "model"
    talk: str = "{}"
    content: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.model.eval()

    @classmethod
    def load(cls, name: str, *, local: bool = False) -> "CausalModel":
        """Load a model of the hub, or in a folder; a local one is only looked for on this machine."""
        folder = resolve_path(Path.cwd(), name)
        if not folder.is_dir():
            if is_path(name) or name.count("/") > 1:
                raise Missing(f"{name}: there is no such folder")
            from huggingface_hub import snapshot_download

            try:
                folder = Path(snapshot_download(name, local_files_only=local, **FILTER))
            except Exception as error:  # the hub's client raises many kinds; all mean: not available now
                reason = " ".join(str(error).split())[:300]
                raise Failed(f"{name}: no causal language model can be loaded: {reason}") from None
        tokenizer, model = load_language_model(folder, "causal")
        content = [
            f"{path.relative_to(folder)} {file_sha256(path)}" for path in VettedFolder.at(folder, plain=True).files
        ]

        template = _read_template(folder)
        talk = next((form for mark, form in TALKS.items() if mark in template), "{}")

        loaded = cls(model.to(best_device()), tokenizer, name, talk, content)
        loaded.refuse_what_looks_ahead()
        return loaded

    def refuse_what_looks_ahead(self) -> None:
        """Refuse a model whose logits change with later tokens, as a masked one's do: it would see the answer."""
        import torch

        ids = torch.tensor([[1, 2, 3], [1, 2, 4]], device=self.model.device)
        try:
            with torch.no_grad():
                one, other = self.model(input_ids=ids).logits[:, :2].float()
        except Exception as error:  # any error of an architecture that takes more than tokens
            reason = " ".join(str(error).split())[:200]
            raise Failed(f"{self.name}: fails on a few tokens ({type(error).__name__}: {reason})") from None
        if not bool(one.isfinite().all() and other.isfinite().all()):
            raise Failed(f"{self.name}: what it says of a few tokens is NaN or infinite: its weights are broken")
        if not torch.allclose(one, other, rtol=0, atol=1e-4 * float(one.abs().max())):
            raise Malformed(f"{self.name}: no causal language model: what it says of a token depends on later ones")

    @property
    def fingerprint(self) -> str:
        """Hash of the weights, and of settings and vocabulary where they lie in files, under any name."""
        from torch import uint8

        hashed = hashlib.sha256("\n".join(self.content).encode())
        for name, weight in sorted(self.model.state_dict().items()):
            hashed.update(f"{name} {weight.dtype} {list(weight.shape)}".encode())
            hashed.update(weight.detach().cpu().contiguous().reshape(-1).view(uint8).numpy().data)
        return hashed.hexdigest()[:16]

    @property
    def longest(self) -> int:
        """The most tokens that are given to the model: as many as it says that it takes, and at most `LONGEST`."""
        config = self.model.config
        longest = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        return LONGEST if longest is None else min(int(longest), LONGEST)

    def reply(self, prompt: str, most: int) -> tuple[str, int]:
        """Return the likeliest continuation of a prompt, put in the model's form for talks, if any, and the tokens of both.

        The continuation has at most `most` tokens.
        """
        with library_errors(f"model '{self.name}': fails on a prompt"):
            return self._reply(self.talk.replace("{}", prompt), most)

    def _reply(self, prompt: str, most: int) -> tuple[str, int]:
        import torch

        ids = self.tokenize(prompt)
        ids = ids[-max(1, self.longest - most) :]  # keep the end of a longer prompt
        given = self.pad([ids])
        end = self.tokenizer.eos_token_id
        with torch.inference_mode():
            made = self.model.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=most,
                do_sample=False,
                pad_token_id=0 if end is None else end,
            )
        return str(self.tokenizer.decode(made[0, len(ids) :], skip_special_tokens=True)), len(made[0])

    def tokenize(self, text: str) -> list[int]:
        """Return tokens, without an end that the tokenizer adds, and with the first one that the model knows, if any."""
        ids = list(self.tokenizer(text)["input_ids"]) if text else []
        first, last = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        if ids and last is not None and ids[-1] == last:
            ids = ids[:-1]
        return ids if first is None or ids[:1] == [first] else [first, *ids]

    def pad(self, rows: Sequence[Sequence[int]]) -> Any:
        """Pad rows with zeros to one length: what is added at their ends changes nothing before it."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        tensors = [torch.tensor(row, dtype=torch.int64) for row in rows]
        return pad_sequence(tensors, batch_first=True).to(self.model.device)
