"""Write what the library LexicalRichness gives for some texts to lexical_richness.json, beside this file.

pip install lexicalrichness==0.5.1
python -m tests.papers.giccs.pin_lexical_richness
"""

import json
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests import giccs_like

PINNED = Path(__file__).with_name("lexical_richness.json")
COMMAND = "python -m tests.papers.giccs.pin_lexical_richness"
TRICKY = (
    "Ja, ich komme. JA! Ja?",
    "Um 20:15 Uhr, im Kino-Saal 3b, oder um 18.30 Uhr?",
    "Geht's? Das ist's - oder \N{EN DASH} na ja \N{EM DASH} auch nicht; E-Mail an a_b@c.de!",
    "\N{DOUBLE LOW-9 QUOTATION MARK}Gut\N{LEFT DOUBLE QUOTATION MARK}, sagte er\N{HORIZONTAL ELLIPSIS} gut ...",
    "Straße STRASSE Öl öl İzmir x² ½ \N{ARABIC-INDIC DIGIT THREE} (und) [so] {weiter} 50% & 100\N{EURO SIGN}",
    "eins",
    "der der der der",
)


def texts() -> list[str]:
    """Return the sample's dialogues by themselves and as one text, and texts that are hard to tokenize."""
    dialogues = ["\n".join(dialogue.turns) for dialogue in giccs_like.DIALOGUES]
    everything = "\n".join(text for d in giccs_like.DIALOGUES for text in (*d.turns, *d.candidates))
    return [*dialogues, everything, *TRICKY]


def library_values(text: str) -> dict[str, Any]:
    """Return tokens, RTTR and MTLD of a text, by the library with its defaults."""
    found = import_module("lexicalrichness").LexicalRichness(text)
    return {"tokens": list(found.wordlist), "rttr": found.rttr, "mtld": found.mtld(threshold=0.72)}


if __name__ == "__main__":
    rows = [{"text": text, **library_values(text)} for text in texts()]
    pinned = {"library": f"lexicalrichness {version('lexicalrichness')}", "command": COMMAND, "texts": rows}
    PINNED.write_text(json.dumps(pinned, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
