"""Names of groups by a causal language model."""

from collections.abc import Sequence
from dataclasses import replace

from traube.core.progress import SILENT, Progress
from traube.grouping.cluster_texts import Clustering
from traube.models.likelihood import CausalModel

READ = 300  # characters of a text
LONGEST, TOKENS = 60, 16  # of a name, in characters and in tokens


def named_by(clusters: Clustering, texts: Sequence[str], model: CausalModel, progress: Progress = SILENT) -> Clustering:
    """Return the same clusters with names that the model finds likeliest.

    The model reads the clusters' typical texts and key words. A cluster for which the model finds no name keeps its
    key words.
    """
    progress.total("names", len(clusters.words))
    names = {}
    for c, words in clusters.words.items():
        shown = "\n".join(f"- {' '.join(texts[i][:READ].split())}" for i in clusters.typical.get(c, []))
        prompt = (
            f"These texts are about one topic:\n{shown}\nKey words: {', '.join(words)}\n"
            "The topic's name, in at most four words and in the language of the texts:"
        )
        said = model.continue_prompt(prompt, TOKENS)
        # the first line that holds a letter, without quotes around it
        lines = [" ".join(line.split()).strip("\"'“”„‘’«»*_#:.- ") for line in said.splitlines()]
        names[c] = next((line[:LONGEST].strip() for line in lines if any(map(str.isalpha, line))), "")
        progress.done("names", 1)
    return replace(clusters, names={c: name for c, name in names.items() if name})
