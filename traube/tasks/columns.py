"""Detection of the columns that hold texts and labels: what a column holds goes before what it is called."""

from collections.abc import Collection, Sequence

import numpy as np

from traube._core.errors import LISTED, Invalid
from traube.tasks._sniffing import find_words
from traube.tasks.reading import Rows
from traube.tasks.task import names_texts

# Names in any case, the surest first, and those of other languages beside the English ones.
TEXTS = (
    "text", "texts", "body", "content", "message", "sentence", "document", "description", "comment", "review", "question",
    "utterance", "abstract", "tweet", "inhalt", "nachricht", "beschreibung", "satz", "kommentar", "frage", "texte", "texto",
    "testo", "tekst", "metin", "commentaire", "comentario", "comentário", "commento", "yorum", "avis", "reseña", "pregunta",
    "pergunta", "pytanie", "soru", "текст", "отзыв", "вопрос", "نص", "文本", "内容", "評論", "评论", "テキスト", "質問",
    "내용", "질문",
)  # fmt: skip
# what texts are called by, which counts where no other column has by far more words
TITLES = ("titel", "title", "headline", "betreff", "überschrift", "titre", "título", "titolo")
LABELS = (
    "label", "labels", "category", "topic", "class", "area", "intent", "sentiment", "emotion", "department", "tag", "genre",
    "kategorie", "thema", "klasse", "bereich", "abteilung", "gattung", "rubrik", "ressort", "catégorie", "categorie",
    "categoria", "categoría", "kategoria", "kategori", "thème", "tema", "sujet", "classe", "clase", "etiqueta", "etiket", "duygu", "konu",
    "категория", "тема", "метка", "تصنيف", "类别", "類別", "标签", "カテゴリ", "ラベル", "카테고리", "라벨",
)  # fmt: skip
LOOKED_AT = 200  # rows
WORDS, NEW, MANY = (
    1.5,
    0.5,
    3,
)  # words of a text, and those that no text before has; many, if texts repeat all their words
CLEARLY = 2  # times as many new words as any other column has


def guess_text_column(rows: Rows) -> str:
    """Return the column of a table's texts: one that reads like texts, and has a name of `TEXTS` or by far the most words.

    A name of `TITLES` is enough where no column has by far the most words. Where no column reads like texts, a name is enough,
    and so is being the only column.

    Raises
    ------
    TraubeError
        If that leaves none, or several, or there are no rows.
    """
    rows.require_rows()
    wealth = {name: count for name in rows.columns if (count := _count_new_words(rows.columns[name]))}
    candidates = wealth or dict.fromkeys(rows.columns, 0.0)
    if (named := _find_named(rows, TEXTS, candidates)) is not None:
        return named
    first, *others = sorted(candidates, key=lambda name: -candidates[name]) or [""]
    if candidates and all(candidates[first] >= CLEARLY * candidates[other] > 0 for other in others):
        return first
    if (titled := _find_named(rows, TITLES, candidates)) is not None:
        return titled
    names = ", ".join(list(rows.columns)[:LISTED]) or "none"
    fault = f"which column holds the texts is not clear; name it with --text COLUMN (columns: {names})"
    raise Invalid(f"{rows.path}: {fault}")


def guess_label_column(rows: Rows, text_column: str) -> str | None:
    """Return the column of a table's labels, the one with a name of `LABELS` that groups texts; None if there is none."""
    return _find_named(rows, LABELS, [name for name in rows.columns if name != text_column and _groups(rows, name)])


def _find_named(rows: Rows, names: Sequence[str], candidates: Collection[str]) -> str | None:
    """Return the candidate with the first of some names."""
    columns = {name.strip().casefold(): name for name in reversed(rows.columns) if name in candidates}
    return next((columns[name] for name in names if name in columns), None)


def _groups(rows: Rows, name: str) -> bool:
    """Return whether the values of a column group texts: there are two or more, and they do not name each text."""
    values = [None if value is None else str(value) for value in rows.columns[name]]
    return len({*values} - {None}) > 1 and not names_texts(values)


def _count_new_words(values: Sequence[object]) -> float:
    """Return how many words a value of a column has that those before lack; 0 if the column does not read like texts.

    Ids have no words; labels, dates and titles of persons repeat few; texts of a template repeat many, but not themselves.
    """
    filled = [value for value in values if value not in (None, "")]
    sample = [filled[i] for i in np.linspace(0, len(filled) - 1, min(LOOKED_AT, len(filled)), dtype=int)]
    words = [find_words(value) for value in sample if isinstance(value, str)]
    if not words or 2 * len(words) < len(sample):
        return 0.0
    new = len({word for value_words in words for word in value_words}) / len(words)
    mean = sum(map(len, words)) / len(words)
    is_template = mean >= MANY and 2 * len({*sample}) >= len(sample)
    return new if mean >= WORDS and (new >= NEW or is_template) else 0.0
