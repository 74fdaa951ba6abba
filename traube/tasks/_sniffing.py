"""Detection of the encoding of a text file, the dialect of its table, and its header, by evidence over many rows.

Dialects are tried by the parser that reads the file afterwards: of 200 tables that Python's `csv` wrote in random dialects,
clevercsv finds 145, in ten times the time.
"""

import codecs
import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product, starmap, zip_longest
from typing import Any

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
QUOTES = ('"', "'", "")  # none: a quote is a character like any other
TRIED = 2**26  # characters of a table that dialects are tried on
PAIRED, APOSTROPHES = 0.5, 0.95  # share of pairs among quotes, and single quotes, that begin a field

# Those that spreadsheets and editors have written, of which one is meant. Of all that there are, many more would fit any
# few letters.
ENCODINGS = [
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "iso8859-2", "iso8859-5",
    "iso8859-6", "iso8859-7", "iso8859-8", "koi8-r", "koi8-u", "cp850", "cp852", "cp866", "cp874", "mac-roman",
    "mac-cyrillic", "cp932", "euc_jis_2004", "gb18030", "big5hkscs", "cp949",
]  # fmt: skip
LOOKED_AT = 2**15  # bytes of the lines with other characters than ASCII's
LIKELY, EQUAL = 0.4, 0.97  # of the greatest likelihood: what an encoding has that may be meant, or as well be meant
FAULTS = 0.05  # share of characters out of place that a text may have
IN_WORDS = "’‘·‐‑–—…\u00a0\u00ad"  # signs that stand between letters

LINES = 5  # of a text that is read as a table
TITLES = 20  # rows above a header
ROWS = 100  # that tell a header from titles and from data
SENTENCE, SEVERAL = 5, 3  # words
BEGINNING = 2_000  # characters of a text whose words are looked at
NUMBER = r"\s*[-+]?\d+([.,]\d+)*\s*"
_CONTRACTION = re.compile(  # a letter in place of an apostrophe
    r"(?:n(?=.t\b)|\b(?:i|it|he|she|that|what|there|let|you|we|they)(?=.(?:s|m|d|re|ve|ll)\b))[^\W\d_a-z]",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?!\w)")
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")

csv.field_size_limit(2**31 - 1)  # a text may be longer than the 128 KiB that the module allows


def rank_encodings(data: bytes) -> list[str]:
    """Return the encodings that a text which is not UTF-8 may have; those after the first are about as likely."""
    import chardet

    decoders = {}
    sample = b"\n".join(line for line in data.split(b"\n") if not line.isascii())[:LOOKED_AT]
    guesses = chardet.detect_all(sample, ignore_threshold=True, include_encodings=ENCODINGS, compat_names=False)
    for one in guesses:
        if (
            (name := one["encoding"])
            and one["confidence"] >= LIKELY * guesses[0]["confidence"]
            and _decodes(data, name)
        ):
            text = codecs.getincrementaldecoder(name)().decode(sample)  # whose last character may be cut
            decoders[name] = (text, one["confidence"], _share_out_of_place(text))
    least = min((faults for *_, faults in decoders.values()), default=0.0)
    likely = {name: (text, sure) for name, (text, sure, faults) in decoders.items() if faults <= least + FAULTS}
    best = max((sure for _, sure in likely.values()), default=0.0)
    different: dict[str, str] = {}  # names by what they make of the text
    for name, (text, sure) in likely.items():
        if sure >= EQUAL * best:
            different.setdefault(text, name)
    return list(different.values())


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        return b"\0" not in data and bool(data.decode(encoding))
    except UnicodeDecodeError:
        return False


def _share_out_of_place(text: str) -> float:
    """Return the share of the characters beyond ASCII that nobody writes where they stand.

    These are controls; in a Latin word signs, letters of another script, and capitals behind small letters; and letters
    where English has an apostrophe.
    """
    count, faults = 0, len(_CONTRACTION.findall(text))
    for run in re.finditer(r"(.?)([^\x00-\x7f]+)(?=(.?))", text, re.S):
        before, chars, after = run.groups("")
        around = f"{before or ' '}{chars}{after or ' '}"
        lonely = len(chars) <= 2 and (before.isalpha() or (after.isascii() and after.isalpha()))
        for left, char, right in zip(around, chars, around[2:], strict=False):
            count += 1
            if char.isalpha() and _is_latin(char):
                faults += char.isupper() and left.islower()
            elif char.isalpha():
                faults += lonely
            elif unicodedata.category(char) in ("Cc", "Cn", "Co"):
                faults += 1
            else:
                is_sign = char not in IN_WORDS and not unicodedata.combining(char)
                faults += is_sign and _is_latin(left) and _is_latin(right)
    return faults / max(count, 1)


@lru_cache(maxsize=2**12)
def _is_latin(char: str) -> bool:
    return char.isalpha() and "LATIN" in unicodedata.name(char, "")


class RowError(Exception):
    """A row that cannot be parsed, and the line at which it begins."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True)
class Dialect:
    """Separator, quote and escape of the fields of a table; a quote or an escape that is empty is none."""

    separator: str = ","
    quote: str = '"'
    escape: str = ""
    spaced: bool = False  # whether spaces behind a separator are no part of a field

    def read(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows that are not blank, each with the line at which it begins; raise RowError at a fault."""
        reader = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self.separator,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            escapechar=self.escape or None,
            skipinitialspace=self.spaced,
            strict=True,
        )
        begin = 1
        try:
            for row in reader:
                if row:
                    yield begin, row
                begin = reader.line_num + 1
        except csv.Error as error:
            raise RowError(begin, str(error)) from None

    def describe(self, usual: str) -> list[str]:
        """Return what is unusual of the dialect, in words."""
        names = {"'": ["quoted by '"], "": ["quotes are characters"]}
        separator = (
            [] if self.separator == usual else [SEPARATORS.get(self.separator, f"separated by {self.separator!r}")]
        )
        others = {"escaped by \\": self.escape, "spaces behind separators": self.spaced}
        return [*separator, *names.get(self.quote, []), *(words for words, is_so in others.items() if is_so)]


def find_separator(text: str) -> str | None:
    """Return what separates the fields of a table that is called a text: a tab or a pipe, as often in each line."""
    lines = [line for line in text[:TRIED].splitlines() if line.strip()]
    counts = {separator: {line.count(separator) for line in lines} for separator in "\t|"}
    return next(
        (one for one, times in counts.items() if len(lines) >= LINES and len(times) == 1 and times != {0}), None
    )


def detect_dialect(text: str, usual: str = ",", separator: str | None = None, quote: str | None = None) -> Dialect:
    """Return the dialect in which the rows of a table fit its header best.

    Parameters
    ----------
    text : str
        The table.
    usual : str, default=","
        Separator that is meant where several explain the table equally well.
    separator, quote : str, optional
        What is known of the dialect.
    """
    sample = text[:TRIED]
    known = [usual, *(one for one in SEPARATORS if one != usual)]
    none = next((one for one in known if one not in sample), usual)  # a table of one column has no separator
    separators = [separator] if separator else [one for one in known if one in sample or one == none]
    escapes = ("", "\\") if "\\" in sample else ("",)
    quotes = QUOTES if quote is None else (quote,)
    spaced = (False, True) if re.search(r"""[^\w\s] +["']""", sample) else (False,)
    tried = [
        one
        for one in starmap(Dialect, product(separators, quotes, escapes, spaced))
        if (quote is not None or _may_quote(one, sample)) and (one.quote or not one.spaced)
    ]
    rated = [(_rate(dialect, sample), dialect) for dialect in tried]
    alike = [(rate, dialect) for rate, dialect in rated if rate.width > 1 or rate.below > 1 or rate.is_quoted]
    if not alike and not separator:  # a table of one column has no separator
        alike = [(rate, dialect) for rate, dialect in rated if dialect.separator == none]
    return max(alike or rated, key=lambda one: (one[0].key, -separators.index(one[1].separator)))[1]


def _may_quote(dialect: Dialect, sample: str) -> bool:
    """Return whether quotes begin fields; double quotes are always tried, and so is none where there are any."""
    if dialect.quote == "'":
        return bool(re.search(rf"(?:^|{re.escape(dialect.separator)})'", sample, re.MULTILINE))
    return dialect.quote == '"' or '"' in sample


@dataclass(frozen=True)
class _Rate:
    """Measures of a dialect: rows are as wide as the header, and quotes are quotes."""

    width: int  # of the header
    below: int  # width of all other rows; 0 if they differ, or are too few to tell
    key: tuple[float, float, float]
    is_quoted: bool  # whether this is one column, most of whose fields are in quotes


def _rate(dialect: Dialect, sample: str) -> _Rate:
    wrapped = torn = split = 0
    widths: list[int] = []
    try:
        for _, row in dialect.read(sample):
            widths.append(len(row))
            if dialect.quote != '"':  # a field with a quote at one of its ends alone is not quoted by it
                quotes = [(field[:1] == '"', field[-1:] == '"' and len(field) > 1) for field in row]
                wrapped, torn = wrapped + quotes.count((True, True)), torn + sum(one != other for one, other in quotes)
                split += (True, False) in quotes and (False, True) in quotes[quotes.index((True, False)) :]
    except RowError:
        widths.append(0)
    header, *others = widths or [0]
    share = widths.count(header) / max(len(widths), 1)
    pairs = _find_pairs(sample, dialect) if dialect.quote else []
    paired = sum(pairs) / max(len(pairs), 1)
    if not dialect.quote:
        likely = 2.0 if torn > wrapped and share == 1 and header > 1 else 0.0
    elif dialect.quote == "'":  # an apostrophe, unless nearly all fields that begin with one end with one
        likely = 2.0 if paired >= APOSTROPHES and sum(pairs) > split else -1.0
    else:
        likely = 3.0 if paired >= PAIRED else 1.0
    below = others[0] if len({*others}) == 1 and len(others) > 2 else 0
    is_quoted = share == header == 1 and 2 * _count_quoted_lines(sample, dialect) > len(widths)
    unusual = bool(dialect.escape) / 2 + bool(dialect.spaced) / 4
    return _Rate(header, below, (share, likely - unusual, header), is_quoted)


def _count_quoted_lines(sample: str, dialect: Dialect) -> int:
    """Return how many lines are one field in double quotes that holds the separator."""
    if dialect.quote != '"':
        return 0
    lines = re.findall(r'^"((?:[^"\n]|"")*)"\r?$', sample, re.MULTILINE)
    return sum(dialect.separator in line for line in lines)


def _find_pairs(sample: str, dialect: Dialect) -> list[bool]:
    """Return, of each field that begins with a quote, whether it ends with one; double quotes pair within a line."""
    between, quote, end = re.escape(dialect.separator), dialect.quote, "\n" if dialect.quote == '"' else ""
    begin = f"{between} *" if dialect.spaced else between
    field = rf"(?:[^{quote}\\{end}]++|{quote}{quote}|\\.)*+{quote}(?=\r?$|{between})"  # never goes back: time is linear
    return [bool(end) for end in re.findall(rf"(?:^|{begin}){quote}({field})?", sample, re.MULTILINE | re.DOTALL)]


def find_words(text: str) -> list[str]:
    """Return the words at a text's beginning that are no addresses or ids; of scripts without spaces, every two characters."""
    tokens = [token for token in text[:BEGINNING].split() if not re.search(r"://|@|www\.", token)]
    words = []
    for word in _WORD.findall(" ".join(tokens)):
        in_pairs = len(word) > 1 and _WITHOUT_SPACES.search(word)
        words += [word[i : i + 2] for i in range(len(word) - 1)] if in_pairs else [word.casefold()]
    return words


def find_header(rows: Sequence[Sequence[Any]]) -> int:
    """Return which row names the columns: the first, unless titles stand above one that holds no values.

    A title begins in the first column, and fills half of the usual ones at most.
    """
    filled = [{i for i, value in enumerate(row) if value not in (None, "")} for row in rows[:ROWS]]
    times = Counter(i for row in filled for i in row)
    usual = {i for i, count in times.items() if 2 * count >= len(filled)}
    first, most = min(usual, default=0), len(usual) / 2
    is_title = (not row or (first in row and len(row & usual) <= most) for row in filled[:TITLES])
    header = next((i for i, title in enumerate(is_title) if not title), 0)
    return 0 if any(map(_is_value, rows[header], zip_longest(*rows[header + 1 : header + ROWS]))) else header


def lacks_header(rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether the first row is like the others beyond doubt.

    Then one of its cells is a sentence, and another is a number of a column of numbers, or a value that the column
    repeats; or one is a number of a column that counts on from it, and another is of several words.
    """
    first, others = rows[0], rows[1:ROWS]
    words = [len(find_words(cell)) for cell in first if isinstance(cell, str) and not cell.endswith("?")]
    if len(others) < 3 or max(words, default=0) < SEVERAL:
        return False
    columns = [*zip_longest(*others)]
    return any(map(_counts_on, first, columns)) or (max(words) >= SENTENCE and any(map(_is_value, first, columns)))


def _counts_on(cell: Any, column: Sequence[Any]) -> bool:
    """Return whether a column counts the rows, from a cell above it on."""
    values = [str(value).strip() for value in (cell, *column)]
    return all(re.fullmatch(r"\d{1,9}", value) for value in values) and all(
        int(after) == int(before) + 1 for before, after in pairwise(values)
    )


def _is_value(cell: Any, column: Sequence[Any]) -> bool:
    if cell in (None, ""):
        return False
    repeats = cell in column and 2 * len({*column}) <= len(column)
    return repeats or all(re.fullmatch(NUMBER, str(value)) for value in (cell, *column) if value not in (None, ""))
