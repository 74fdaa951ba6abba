"""Languages by their ISO 639-1 codes: detection from texts, and their English names."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from traube._core.errors import join_words

SAMPLE = 200  # texts whose languages are looked at
PIECE = 160  # characters from which a language is detected
SPOKEN = 0.1  # share of them that makes a language one of the texts'
UNKNOWN = "und"  # a task's language that its card does not say
NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "ga": "Irish", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "ko": "Korean",
    "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ms": "Malay", "nb": "Norwegian", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "th": "Thai",
    "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese", "mul": "many languages",
}  # fmt: skip


def detect_languages(texts: Sequence[str]) -> list[str]:
    """Return the languages of some texts, the most frequent first, as ISO 639-1 codes.

    The list is empty if there are too few letters.

    Pieces of a sample vote; a language with fewer than a tenth of the votes is left out.
    """
    import py3langid
    import stopwordsiso

    pieces, piece = [], ""  # short texts together: a few words could be of many languages
    for i in dict.fromkeys(np.linspace(0, len(texts) - 1, min(SAMPLE, len(texts)), dtype=int).tolist()):
        piece = f"{piece} {texts[i][:PIECE]}".strip()
        if len(piece) >= PIECE:
            pieces.append(piece)
            piece = ""
    if len(piece) >= PIECE / 4:
        pieces.append(piece)
    votes = Counter(py3langid.classify(piece)[0] for piece in pieces)
    fewest, known = SPOKEN * votes.total(), stopwordsiso.langs()
    return [code for code, count in votes.most_common() if count >= fewest and code in known]


def name_languages(codes: Iterable[str]) -> str:
    """Return languages in words: `German and English`."""
    return join_words([NAMES.get(code, code) for code in codes])
