"""Names of groups by a causal language model."""

from collections.abc import Sequence
from dataclasses import replace

from traube.core.progress import SILENT, Progress
from traube.grouping.cluster_texts import Clusters
from traube.models.likelihood import CausalModel

READ = 300  # characters of a text
LONGEST, TOKENS = 60, 16  # of a name, in characters and in tokens


def named_by(clusters: Clusters, texts: Sequence[str], model: CausalModel, progress: Progress = SILENT) -> Clusters:
    """The same clusters with names that the model finds likeliest after their typical texts and key
    words. One for which it finds none keeps its key words.
    """
    progress.total("names", len(clusters.words))
    names = {}
    for c, words in clusters.words.items():
        said = model.continued(_prompt([texts[i] for i in clusters.typical.get(c, [])], words), TOKENS)
        names[c] = _first_line(said)
        progress.done("names", 1)
    return replace(clusters, names={c: name for c, name in names.items() if name})


def _prompt(texts: Sequence[str], words: Sequence[str]) -> str:
    shown = "\n".join(f"- {' '.join(text[:READ].split())}" for text in texts)
    return (
        f"These texts are about one topic:\n{shown}\nKey words: {', '.join(words)}\n"
        "The topic's name, in at most four words and in the language of the texts:"
    )


def _first_line(said: str) -> str:
    """A name out of what a model said: its first line that holds a letter, without quotes around it."""
    lines = [" ".join(line.split()).strip("\"'“”„‘’«»*_#:.- ") for line in said.splitlines()]
    return next((line[:LONGEST].strip() for line in lines if any(letter.isalpha() for letter in line)), "")
