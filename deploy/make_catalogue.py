"""Write the catalog's generated half from the metadata of the mteb package: `make catalogue`.

Writes `traube/models/catalogue_mteb.yaml` and, from a table of MTEB's results, `traube/models/published_scores.csv`.
mteb is a tool of the developer's and no dependency: it is installed into an environment of its own.
"""

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "traube" / "models"
MANY, FEWEST = "mul", 50  # languages from which a model is made for many
MACRO = {"arb": "ar", "cmn": "zh", "nno": "no", "nob": "no", "pes": "fa", "zsm": "ms"}
POSITIONS = {514: 512}  # XLM-RoBERTa and RoBERTa leave two positions unused
TASKS = {
    "de": ("BlurbsClusteringS2S", "BlurbsClusteringP2P", "TenKGnadClusteringS2S", "TenKGnadClusteringP2P"),
    "en": ("TwentyNewsgroupsClustering",),
}
TABLE = FOLDER.parent / "papers" / "german" / "published" / "table2.csv"  # of models that MTEB has not scored
TABLE_TASKS = ("blurbs_s2s", "blurbs_p2p", "tenkgnad_s2s", "tenkgnad_p2p")
TABLE_SOURCE = "Wehrli et al. 2023 (table 2): mean V-measure of mini-batch k-means on the same tasks"
SOURCE = "MTEB results f4cc6c8 (CC0): mean v_measure of "
POWERS = (32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Listed:
    """A model of the catalog: what mteb's metadata does not say, or say otherwise."""

    model: str  # id on the hub
    architecture: str  # model_type of its config.json; static: one vector for each token
    called: str = ""  # name in the catalog, where that of the hub is long
    like: str = ""  # id whose metadata hold for this one: mteb knows the same weights by another name
    sizes: tuple[int, ...] = ()  # dimensions that its authors name
    languages: tuple[str, ...] = ()
    prompt: str | None = None  # for clustering; by default the one of mteb's metadata
    pooling: str | None = None
    is_native: bool = False  # mteb loads code from its repository, and transformers has the architecture by now
    parameters: int | None = None

    @property
    def name(self) -> str:
        """Name in the catalog."""
        return self.called or self.model.partition("/")[2].lower().replace("-", "_")


LISTED = (
    # one vector for each token: hundreds of thousands of tokens a second on a CPU
    Listed("minishlab/potion-base-2M", "static"),
    Listed("minishlab/potion-base-4M", "static"),
    Listed("minishlab/potion-base-8M", "static"),
    Listed("minishlab/potion-base-32M", "static"),
    Listed("minishlab/potion-multilingual-128M", "static"),
    Listed("sentence-transformers/static-retrieval-mrl-en-v1", "static", "static_retrieval_english"),
    Listed("sentence-transformers/static-similarity-mrl-multilingual-v1", "static", "static_similarity_multilingual"),
    # encoders for English
    Listed("sentence-transformers/all-MiniLM-L12-v2", "bert"),
    Listed("sentence-transformers/all-mpnet-base-v2", "mpnet"),
    Listed("BAAI/bge-small-en-v1.5", "bert"),
    Listed("BAAI/bge-base-en-v1.5", "bert"),
    Listed("BAAI/bge-large-en-v1.5", "bert"),
    Listed("intfloat/e5-small-v2", "bert", prompt="query: "),
    Listed("intfloat/e5-base-v2", "bert", prompt="query: "),
    Listed("intfloat/e5-large-v2", "bert", prompt="query: "),
    Listed("thenlper/gte-small", "bert"),
    Listed("thenlper/gte-base", "bert"),
    Listed("thenlper/gte-large", "bert"),
    Listed("Alibaba-NLP/gte-modernbert-base", "modernbert"),
    Listed("nomic-ai/nomic-embed-text-v1.5", "nomic_bert", sizes=(64, 128, 256, 512, 768), is_native=True),
    Listed("nomic-ai/modernbert-embed-base", "modernbert", is_native=True),
    Listed("lightonai/DenseOn", "modernbert"),
    Listed("Snowflake/snowflake-arctic-embed-xs", "bert", "arctic_embed_xs"),
    Listed("Snowflake/snowflake-arctic-embed-s", "bert", "arctic_embed_s"),
    Listed("Snowflake/snowflake-arctic-embed-m-v1.5", "bert", "arctic_embed_m_v1.5", sizes=(256, 768)),
    Listed("ibm-granite/granite-embedding-30m-english", "roberta", "granite_30m_english"),
    Listed("ibm-granite/granite-embedding-small-english-r2", "modernbert", "granite_small_english_r2"),
    Listed("ibm-granite/granite-embedding-english-r2", "modernbert", "granite_english_r2"),
    Listed("mixedbread-ai/mxbai-embed-xsmall-v1", "bert"),
    Listed("mixedbread-ai/mxbai-embed-large-v1", "bert"),
    Listed("MongoDB/mdbr-leaf-mt", "bert"),
    Listed("WhereIsAI/UAE-Large-V1", "bert"),
    # encoders for many languages
    Listed("sentence-transformers/LaBSE", "bert"),
    Listed("intfloat/multilingual-e5-large-instruct", "xlm-roberta"),
    Listed("google/embeddinggemma-300m", "gemma3_text", sizes=(128, 256, 512, 768), languages=(MANY,),
           prompt="task: clustering | query: "),
    Listed("alibaba-nlp-community/gte-multilingual-base", "gte", like="Alibaba-NLP/gte-multilingual-base", pooling="cls",
           is_native=True),
    Listed("Snowflake/snowflake-arctic-embed-m-v2.0", "gte", "arctic_embed_m_v2.0", sizes=(256, 768), is_native=True),
    Listed("Snowflake/snowflake-arctic-embed-l-v2.0", "xlm-roberta", "arctic_embed_l_v2.0", sizes=(256, 1024)),
    Listed("ibm-granite/granite-embedding-107m-multilingual", "xlm-roberta", "granite_107m_multilingual"),
    Listed("ibm-granite/granite-embedding-97m-multilingual-r2", "modernbert", "granite_97m_multilingual_r2"),
    Listed("ibm-granite/granite-embedding-311m-multilingual-r2", "modernbert", "granite_311m_multilingual_r2"),
    Listed("lightonai/mDenseOn", "modernbert"),
    Listed("jinaai/jina-embeddings-v5-text-nano-clustering", "eurobert", "jina_v5_nano_clustering",
           like="jinaai/jina-embeddings-v5-text-nano", prompt="Document: ", is_native=True),
    # language models that give embeddings
    Listed("jinaai/jina-embeddings-v5-text-small-clustering", "qwen3", "jina_v5_small_clustering",
           like="jinaai/jina-embeddings-v5-text-small", prompt="Document: ", is_native=True),
    Listed("microsoft/harrier-oss-v1-270m", "gemma3_text"),
    Listed("microsoft/harrier-oss-v1-0.6b", "qwen3"),
    Listed("codefuse-ai/F2LLM-v2-80M", "qwen3"),
    Listed("HIT-TMG/KaLM-embedding-multilingual-mini-instruct-v1.5", "qwen2", "kalm_mini_instruct_v1.5"),
    Listed("Qwen/Qwen3-Embedding-0.6B", "qwen3", sizes=(*POWERS, 768, 1024)),
    Listed("Qwen/Qwen3-Embedding-4B", "qwen3", sizes=(*POWERS, 768, 1024, 2048, 2560)),
    Listed("Qwen/Qwen3-Embedding-8B", "qwen3", sizes=(*POWERS, 768, 1024, 2048, 4096)),
    Listed("intfloat/e5-mistral-7b-instruct", "mistral"),
    # of one language
    Listed("mixedbread-ai/deepset-mxbai-embed-de-large-v1", "xlm-roberta", "mxbai_embed_de_large_v1"),
    Listed("aari1995/German_Semantic_STS_V2", "bert"),
    Listed("BAAI/bge-small-zh-v1.5", "bert", parameters=24_000_000),
    Listed("cl-nagoya/ruri-v3-30m", "modernbert"),
    Listed("cl-nagoya/ruri-v3-310m", "modernbert"),
    Listed("deepvk/USER2-small", "modernbert"),
    Listed("deepvk/USER2-base", "modernbert"),
    Listed("clips/e5-base-trm-nl", "xlm-roberta", prompt="query: "),
    Listed("sdadas/mmlw-roberta-base", "roberta"),
    Listed("PORTULAN/serafim-100m-portuguese-pt-sentence-encoder", "bert", "serafim_100m"),
    Listed("NbAiLab/nb-sbert-base", "bert", sizes=(768,), languages=("no", "sv", "da", "en")),
    Listed("KBLab/sentence-bert-swedish-cased", "bert"),
)  # fmt: skip

# Models of the same families that Traube does not load, and why.
OWN_CODE = "asks for code of its own"
LEFT_OUT = {
    "BAAI/bge-m3": "its weights are pickled",
    "Alibaba-NLP/gte-multilingual-base": f"{OWN_CODE}; alibaba-nlp-community has the same weights for transformers' own",
    "Alibaba-NLP/gte-base-en-v1.5": OWN_CODE,
    "Alibaba-NLP/gte-Qwen2-1.5B-instruct": f"{OWN_CODE}: Qwen2 that reads in both directions",
    "nomic-ai/nomic-embed-text-v2-moe": f"{OWN_CODE}: a mixture of experts",
    "jinaai/jina-embeddings-v2-base-en": f"{OWN_CODE}: BERT with ALiBi",
    "jinaai/jina-embeddings-v3": f"{OWN_CODE}, and an adapter for each task",
    "jinaai/jina-embeddings-v5-text-nano": f"{OWN_CODE}; its sibling for clustering is listed",
    "jinaai/jina-embeddings-v5-text-small": f"{OWN_CODE}; its sibling for clustering is listed",
    "mongodb/voyage-4-nano": f"{OWN_CODE}: Qwen3 that reads in both directions, and a projection",
    "KaLM-Embedding/KaLM-embedding-multilingual-mini-instruct-v2.5": f"{OWN_CODE}: Qwen2 that reads in both directions",
    "nvidia/llama-embed-nemotron-8b": f"{OWN_CODE}: Llama that reads in both directions",
}

# Hub ids of the entries of catalogue.yaml that do not name theirs.
PACKAGED = dict.fromkeys(("minilm", "minilm_32", "minilm_query_space"), "sentence-transformers/all-MiniLM-L6-v2")
ARCHITECTURES = {
    "all-MiniLM-L6-v2": "bert",
    "multilingual-e5-small": "bert",
    "paraphrase-multilingual-MiniLM-L12-v2": "bert",
    "sentence-t5-base": "t5",
    "sentence-t5-xxl": "t5",
}  # of models of catalogue.yaml; the others are XLM-RoBERTa

# Of the German benchmark's models those that mteb does not know: architecture, and the license where their page was read.
BY_HAND = {
    "gbert_base": ("bert", ""),
    "gbert_large": ("bert", ""),
    "gelectra_base": ("electra", ""),
    "gelectra_large": ("electra", ""),
    "gottbert_base": ("roberta", "mit"),
    "cross_en_de_roberta": ("xlm-roberta", "mit"),
    "use_cmlm_multilingual": ("bert", ""),
}


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, help="MTEB's results, a line of JSON for each model and task")
    arguments = parser.parse_args()
    from mteb import __version__
    from mteb.models.model_implementations import MODEL_REGISTRY

    own = yaml.safe_load((FOLDER / "catalogue.yaml").read_text(encoding="utf-8"))
    ids = {name: id_ for name, entry in own.items() if (id_ := PACKAGED.get(name) or entry.get("model"))}
    about = {name: describe_known(MODEL_REGISTRY[id_]) for name, id_ in ids.items() if id_ in MODEL_REGISTRY}
    for name, (architecture, license) in BY_HAND.items():
        about[name] = {"architecture": architecture} | ({"license": license} if license else {})
    models = {listed.name: describe(listed, MODEL_REGISTRY[listed.like or listed.model]) for listed in LISTED}
    check(models, own, MODEL_REGISTRY)
    write(FOLDER / "catalogue_mteb.yaml", __version__, about, models)
    if arguments.results:
        del ids["minilm_32"], ids["minilm_query_space"]  # other vectors than those that were scored
        ids |= {listed.name: listed.like or listed.model for listed in LISTED}
        revisions = {name: {**own, **models}[name].get("revision") for name in ids}
        write_scores(FOLDER / "published_scores.csv", arguments.results, ids, revisions)


def describe_known(meta: Any) -> dict[str, Any]:
    """Return what mteb knows of a model that catalogue.yaml names."""
    architecture = ARCHITECTURES.get(meta.name.partition("/")[2], "xlm-roberta")
    return _facts(meta, architecture, ())


def _facts(meta: Any, architecture: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    longest = int(meta.max_tokens) if meta.max_tokens and meta.max_tokens != float("inf") else None
    own_sizes = meta.embed_dim if isinstance(meta.embed_dim, list) else [meta.embed_dim]
    license = "" if meta.license in (None, "not specified") else meta.license
    facts = {
        "megabytes": round(meta.memory_usage_mb * 2**20 / 1e6) if meta.memory_usage_mb else None,
        "architecture": architecture,
        "parameters": meta.n_parameters,
        "vector_sizes": list(sizes) or sorted(own_sizes),
        "longest_input": POSITIONS.get(longest or 0, longest),
        "license": license,
        "released": meta.release_date,
    }
    return {key: value for key, value in facts.items() if value}


def describe(listed: Listed, meta: Any) -> dict[str, Any]:
    """Return the catalog's entry of a model."""
    facts = _facts(meta, listed.architecture, listed.sizes)
    if listed.parameters:
        facts["parameters"] = listed.parameters
    prompt, template = listed.prompt, None
    if prompt is None:
        prompt = (meta.loader_kwargs.get("model_prompts") or {}).get("Clustering")
        template = None if prompt else find_template(meta)
    entry = {
        "model": listed.model,
        "revision": None if listed.like else meta.revision,
        "languages": list(listed.languages) or read_languages(meta.languages or []),
        **facts,
        "pooling": listed.pooling,
        "prompt": prompt,
        "template": template,
        "instruction": find_instruction() if template else None,
    }
    return {key: value for key, value in entry.items() if value}


def find_template(meta: Any) -> str | None:
    """Return the frame that mteb puts around a text and its instruction; None if it gives the model no instruction."""
    module = sys.modules[meta.loader.__module__]
    frame = meta.loader_kwargs.get("instruction_template") or getattr(module, "instruction_template", None)
    if frame is None:
        return None
    return f"{frame if isinstance(frame, str) else frame('{instruction}')}{{text}}"


def find_instruction() -> str:
    """Return the instruction that mteb gives for clustering where a task has none of its own."""
    from mteb.abstasks.clustering import AbsTaskClustering

    return str(AbsTaskClustering.abstask_prompt)


def read_languages(codes: Iterable[str]) -> list[str]:
    """Return ISO 639-1 codes of mteb's, which are of ISO 639-3 and a script."""
    short = {
        long: code for code, long in json.loads((files("mteb.languages") / "iso_639_1_to_3.json").read_text()).items()
    }
    spoken = dict.fromkeys(code.partition("-")[0] for code in codes if not code.endswith("-Code"))
    if len(spoken) >= FEWEST:
        return [MANY]
    return list(dict.fromkeys(MACRO.get(code) or short.get(code, code) for code in spoken))


def check(models: Mapping[str, Any], own: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Stop if a model is named twice, cannot be loaded, or is left out though mteb knows no reason."""
    lists = yaml.safe_load((FOLDER / "allowed.yaml").read_text(encoding="utf-8"))
    allowed = {*lists["architectures"].split(), "static"}
    faults = [f"{listed.model}: listed and left out" for listed in LISTED if listed.model in LEFT_OUT]
    faults += [f"{name}: not known to mteb" for name in LEFT_OUT if name not in known]
    faults += [f"{listed.name}: named twice" for listed in LISTED if listed.name in own]
    faults += [
        f"{listed.name}: {listed.architecture} is refused" for listed in LISTED if listed.architecture not in allowed
    ]
    for listed in LISTED:
        needs_code = known[listed.like or listed.model].loader_kwargs.get("trust_remote_code")
        if needs_code and not listed.is_native:
            faults.append(f"{listed.name}: mteb loads code from its repository")
    if len(models) < len(LISTED):
        faults.append("two models have one name")
    if faults:
        sys.exit("\n".join(faults))


def write(path: Path, version: str, about: Mapping[str, Any], models: Mapping[str, Any]) -> None:
    """Write the catalog's generated half."""
    lines = [
        f"# Written by `make catalogue` from the metadata of mteb {version}; deploy/make_catalogue.py lists the models.",
        "# Where mteb carries no revision, it is resolved at the first download; where it knows no size, none is stated.",
        "# Instructions are those that mteb gives for clustering where a task has none of its own.",
        "#",
        "# Left out, since Traube runs no code of a model's repository and reads no pickles:",
        *(f"#   {name}: {reason}" for name, reason in LEFT_OUT.items()),
        "",
        "# What is known of models of catalogue.yaml: it describes them, and sets nothing.",
        "about:",
        *_entries(about),
        "",
        "models:",
        *_entries(models),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _entries(entries: Mapping[str, Any]) -> Iterable[str]:
    for name, entry in entries.items():
        yield f"  {name}:"
        for key, value in entry.items():
            quoted = json.dumps(value, ensure_ascii=False) if isinstance(value, str) and key in QUOTED else value
            shown = f"[{', '.join(_word(item) for item in value)}]" if isinstance(value, list) else quoted
            yield f"    {key}: {shown}"


QUOTED = ("prompt", "template", "instruction")


def _word(item: Any) -> str:
    """Return an item of a list; `no`, Norwegian, is a truth value in YAML."""
    return '"no"' if item == "no" else str(item)


def write_scores(path: Path, results: Path, ids: Mapping[str, str], revisions: Mapping[str, str | None]) -> None:
    """Write the mean v_measure of each model and language whose tasks are all scored."""
    scores: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    newest: dict[tuple[str, str], tuple[int, ...]] = defaultdict(tuple)  # version of mteb
    with gzip.open(results, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            scores[row["model"]][row["model_revision"]][row["task"]] = row["v_measure"]
            of = row["model"], row["model_revision"]
            newest[of] = max(newest[of], _version(row["mteb_version"] or ""))
    rows = []
    for name, id_ in sorted(ids.items()):
        of_model = scores.get(id_, {})
        # the catalog's revision first, then what the newest mteb scored
        order = sorted(of_model, key=lambda r: (r == revisions[name], newest[id_, r]), reverse=True)
        for language, tasks in TASKS.items():
            whole = (of_model[r] for r in order if all(of_model[r].get(task) is not None for task in tasks))
            if found := next(whole, None):
                value = 100 * mean(found[task] for task in tasks)
                rows.append([name, language, f"{value:.2f}", SOURCE + " ".join(tasks)])
    with TABLE.open(encoding="utf-8", newline="") as file:
        scored = {name for name, language, *_ in rows if language == "de"}
        table = [
            row
            for row in csv.DictReader(line for line in file if not line.startswith("#"))
            if row["model"] not in scored
        ]
    rows += [[row["model"], "de", f"{mean(float(row[t]) for t in TABLE_TASKS):.2f}", TABLE_SOURCE] for row in table]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "language", "v_measure", "source"])
        writer.writerows(sorted(rows))


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


if __name__ == "__main__":
    main()
