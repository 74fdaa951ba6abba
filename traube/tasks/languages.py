"""Languages by their ISO 639-1 codes: detection from texts, and their English names."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

import numpy as np

from traube._core import paths
from traube._core.disk import read_json
from traube._core.errors import join_words
from traube._core.files import write_json
from traube._core.hashing import digest
from traube._core.versions import get_version

SAMPLE = 200  # texts whose languages are looked at
READ = 160  # characters of each
PIECE = 80  # characters from which a language is detected: shorter texts are read together
FEWEST = 40  # bytes that the last piece needs
SURE = 0.6  # probability from which a piece is in a language
FIRM, FIRM_PIECES, SPOKEN = 0.9, 2, 0.1  # probability, number and share of the pieces that state a further language
KEPT = 200  # answers that are kept, the newest first
UNKNOWN = "und"  # a task's language that its card does not say
VARIETIES = {"ary": "ar", "arz": "ar", "bs": "hr", "nb": "no", "nn": "no", "wuu": "zh", "yue": "zh"}
NAMES = {
    "af": "Afrikaans", "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech",
    "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician",
    "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "km": "Khmer",
    "ko": "Korean", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "mr": "Marathi",
    "ms": "Malay", "my": "Burmese", "nb": "Norwegian", "nl": "Dutch", "no": "Norwegian", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian",
    "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese", "mul": "many languages",
}  # fmt: skip


def detect_languages(texts: Sequence[str]) -> list[str]:
    """Return the languages of some texts, the most frequent first, as ISO 639-1 codes; empty where they do not tell.

    Pieces of a sample vote where they are likely in one language. A further language than the most frequent one needs
    at least two pieces that are nearly certain, and a tenth of the votes. Languages without a name in `NAMES` are left
    out.
    """
    return list(_detect_of_pieces(tuple(_cut_pieces(texts))))


@lru_cache(maxsize=8)
def _detect_of_pieces(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Return the languages of pieces of texts; answers are kept in TRAUBE_HOME, since to load the classifier takes longest."""
    if not pieces:
        return ()
    readable = [piece.encode(errors="replace").decode() for piece in pieces]  # half an emoji has no bytes
    path, key = paths.home() / "languages.json", digest([get_version("py3langid"), readable])
    known = {name: codes for name, codes in read_json(path).items() if _is_answer(codes)}
    if key not in known:
        known = {key: _rank_languages(pieces), **dict(list(known.items())[:KEPT])}
        if path.parent.is_dir():
            with suppress(OSError):  # a data directory that is read only
                write_json(path, known, sort=False)
    return tuple(known[key])


def _is_answer(codes: Any) -> bool:
    """Return whether a value of the file is one that was written there."""
    return isinstance(codes, list) and all(isinstance(code, str) and code in NAMES for code in codes)


def _rank_languages(pieces: Sequence[str]) -> list[str]:
    """Return the languages in which pieces of texts are likely, the most frequent first."""
    likely = [(code, p) for code, p in map(_find_likeliest, pieces) if p >= SURE]
    votes = Counter(code for code, _ in likely)
    firm = Counter(code for code, p in likely if p >= FIRM)
    fewest = max(FIRM_PIECES, SPOKEN * votes.total())
    ranked = [code for code, _ in votes.most_common()]
    return [code for i, code in enumerate(ranked) if (i == 0 or firm[code] >= fewest) and code in NAMES]


def _cut_pieces(texts: Sequence[str]) -> list[str]:
    """Return the beginnings of a sample of different texts; short ones stand together: a few words could be of many."""
    texts = list(dict.fromkeys(texts))
    # drawn, since languages may alternate by rows
    drawn = np.random.default_rng(0).permutation(len(texts))[:SAMPLE]
    pieces, piece = [], ""
    for i in np.sort(drawn).tolist():
        piece = f"{piece} {texts[i][:READ]}".strip()
        if len(piece) >= PIECE:
            pieces.append(piece)
            piece = ""
    return [*pieces, piece] if len(piece.encode(errors="replace")) >= FEWEST else pieces


def _find_likeliest(piece: str) -> tuple[str, float]:
    """Return the likeliest language of a piece, and its probability with its varieties."""
    likely: Counter[str] = Counter()
    for code, probability in _load_identifier().rank(piece.encode(errors="replace")):
        likely[VARIETIES.get(code, code)] += probability
    return likely.most_common(1)[0]


@cache
def _load_identifier() -> Any:
    """Load the classifier of languages, whose probabilities are calibrated over lengths."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def name_languages(codes: Iterable[str]) -> str:
    """Return languages in words: `German and English`."""
    return join_words([NAMES.get(code, code) for code in codes])
