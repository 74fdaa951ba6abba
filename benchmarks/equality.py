"""Every score that a change of the code may not move, to the last digit.

::

    equality.py compute BEFORE                              # in a checkout of the code as it was
    equality.py compute AFTER --vectors BEFORE/vectors      # in one of the code as it is
    equality.py compare BEFORE AFTER

`compute` runs Traube's commands in a fresh data directory below the folder: the demo's grid, cells of the German
benchmark, COB, QS3M, short texts (the deep clusterers too) and pairs, as far as their raw data is here (`TRAUBE_RAW`). It
writes scores with their replicates, clusters, papers' tables and the answers of `traube pairs --json`. What encoders return is
recorded on the way, by text; with `--vectors` these vectors are used instead, since a text's last digits depend on its batch.
`compare` ends with status 1 if a number differs or is on one side only; by how much vectors differ is printed, and no failure:
without `--vectors` the same text may have been encoded in another batch.
"""

import argparse
import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CELLS = ["task", "protocol", "own_choice", "model", "method", "seed"]
SCORES = [*CELLS, "split", "level", "metric"]
LEXICAL = ["-m", "bow", "-m", "tfidf", "-m", "lsa"]
ENCODED = ["-m", "lsa", "-m", "minilm"]
# name: what `traube` is called with
GRIDS: dict[str, list[str]] = {
    "demo": ["run"],
    "german": ["run", "-t", "tenkgnad_p2p", "-p", "mteb-v1", *LEXICAL],
    "cob": ["run", "-t", "car_test200_coarse", "-t", "car_test200_fine", "-p", "cob", *ENCODED],
    "newsgroups": ["run", "-t", "newsgroups", "-p", "cob", "-m", "lsa"],
    "qs3m": ["run", "-t", "car_test200_flat", "-p", "cob", *ENCODED, "-m", "jaccard", "-m", "minilm_query_space"],
    "short": ["run", "-t", "searchsnippets", "-t", "tweet", "-p", "short-text", *LEXICAL, "-m", "minilm"],
    "own": ["run", "-t", "tweet", "-p", "own", *ENCODED],
    "deep": ["run", "-t", "tweet", "-p", "aecl_frozen", "-m", "minilm", "--seed", "42", "--method", "none/gsdmm"]
    + [part for name in ("ecic", "aecl", "sccl", "rstc") for part in ("--method", f"none/{name}")],
    "pairs": ["pairs", "-t", "stsb_de", "-m", "bow", *ENCODED, "-m", "lda", "--json"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    computing = commands.add_parser("compute")
    computing.add_argument("folder", type=Path)
    computing.add_argument("--vectors", type=Path, help="a folder of recorded vectors to use")
    computing.add_argument("--only", action="append", choices=GRIDS, help="may be repeated")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "compare":
        return compare(arguments.before, arguments.after)
    compute(arguments.folder.resolve(), arguments.vectors, arguments.only or list(GRIDS))
    return 0


def compute(folder: Path, vectors: Path | None, names: Sequence[str]) -> None:
    """Run the grids in a data directory below a folder, and write their numbers beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"TRAUBE_HOME": str(folder / "home"), "TRAUBE_CHECKPOINTS": str(folder / "checkpoints")}
    with recorded(folder / "vectors", vectors) as encoded:
        for name in names:
            print(f"{name}: traube {' '.join(GRIDS[name])}", file=sys.stderr, flush=True)
            (folder / f"{name}.txt").write_text(printed(GRIDS[name]))
    print(f"{encoded['encoded']:,} texts were encoded, {encoded['given']:,} vectors were given", file=sys.stderr)
    scores, clusters = stored()
    scores.to_parquet(folder / "scores.parquet")
    clusters.to_parquet(folder / "clusters.parquet")
    print(f"{len(clusters):,} cells, {len(scores):,} scores", file=sys.stderr)


def printed(command: Sequence[str]) -> str:
    """Return what a command prints."""
    from typer.main import get_command

    from traube._cli.main import app

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        get_command(app).main(list(command), standalone_mode=False)
    return out.getvalue()


def stored() -> tuple[pd.DataFrame, pd.DataFrame]:
    """All scores with replicates, and a hash of each cell's clusters: what this script knows of storage."""
    from traube._core import paths
    from traube._pipeline.current import current_cells
    from traube._pipeline.params import load_params
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    cells = current_cells(storage, load_params().protocols, own_choice=True)
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    scores = storage.read_scores(cells, replicates=True).merge(cells[["cell_id", *CELLS]], on="cell_id")
    done = cells[cells["status"] == "done"]
    hashes = [hashed(storage.read_assignments(cell_id)) for cell_id in done["cell_id"]]
    clusters = done[CELLS].assign(clusters=hashes)
    others = cells.loc[cells["status"] != "done", [*CELLS, "status"]].rename(columns={"status": "clusters"})
    return scores[[*SCORES, "value", "replicates"]], pd.concat([clusters, others])


def hashed(assignments: pd.DataFrame) -> str:
    ordered = assignments.sort_values(["split", "level", "item"])[["split", "level", "item", "cluster"]]
    return hashlib.sha256(ordered.to_csv(index=False).encode()).hexdigest()


@contextlib.contextmanager
def recorded(folder: Path, given: Path | None) -> Iterator[dict[str, int]]:
    """Record what encoders return for each text; of texts that are in the folder `given`, return what is there."""
    from traube._pipeline import ahead
    from traube.models.transformer import Transformer

    encode_ahead = ahead.encode_ahead
    encode_batches, vectors, counts = (
        Transformer.encode_batches,
        dict[str, dict[str, Any]](),
        {"encoded": 0, "given": 0},
    )

    def encode(model: Transformer, texts: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        key = model.fingerprint
        known = vectors.setdefault(key, read(given / f"{key}.npz") if given else {})
        names = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        absent = [i for i, name in enumerate(names) if name not in known]
        there = [i for i, name in enumerate(names) if name in known]
        counts["encoded"], counts["given"] = counts["encoded"] + len(absent), counts["given"] + len(there)
        if there:
            yield np.array(there), np.stack([known[names[i]] for i in there])
        for rows, block in encode_batches(model, [texts[i] for i in absent]) if absent else ():
            known |= {names[absent[row]]: vector for row, vector in zip(rows, block, strict=True)}
            yield np.array(absent)[rows], block

    Transformer.encode_batches = encode  # type: ignore[method-assign]
    # a process that encodes ahead would not be recorded
    ahead.encode_ahead = lambda storage, requests: contextlib.nullcontext(lambda position, progress: None)
    try:
        yield counts
    finally:
        Transformer.encode_batches = encode_batches  # type: ignore[method-assign]
        ahead.encode_ahead = encode_ahead
        folder.mkdir(parents=True, exist_ok=True)
        for key, known in vectors.items():
            np.savez(folder / f"{key}.npz", names=np.array(list(known)), vectors=np.stack(list(known.values())))


def read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    with np.load(file) as held:
        return dict(zip(held["names"].tolist(), held["vectors"], strict=True))


def compare(before: Path, after: Path) -> int:
    """Print what differs; the number of kinds of results of which something does."""
    found = [
        tables_differ(before, after, "scores.parquet", SCORES),
        tables_differ(before, after, "clusters.parquet", CELLS),
    ]
    made = sorted({path.relative_to(side) for side in (before, after) for path in side.glob("home/papers/*/*.csv")})
    for name in [Path("pairs.txt"), *made]:
        one, other = ((side / name).read_text() if (side / name).exists() else None for side in (before, after))
        print(f"{name}: {'equal' if one == other else 'DIFFERENT'}")
        found.append(one != other)
    for file in sorted({path.name for side in (before, after) for path in side.glob("vectors/*.npz")}):
        known, new = (read(side / "vectors" / file) for side in (before, after))
        both = known.keys() & new.keys()
        apart = max((float(np.abs(known[text] - new[text]).max()) for text in both), default=0.0)
        print(f"vectors of {file[:12]}: {len(both):,} texts on both sides, at most {apart:.2g} apart")
    return int(any(found))


def tables_differ(before: Path, after: Path, name: str, keys: list[str]) -> bool:
    """Compare two tables row by row, floating-point numbers by their bits."""
    one, other = (pd.read_parquet(side / name).set_index(keys).sort_index() for side in (before, after))
    missing, new = one.index.difference(other.index), other.index.difference(one.index)
    common = one.index.intersection(other.index)
    differ = [key for key, a, b in zip(common, rows(one.loc[common]), rows(other.loc[common]), strict=True) if a != b]
    print(
        f"{name}: {len(common):,} rows on both sides, {len(differ):,} differ, {len(missing):,} are gone, {len(new):,} new"
    )
    for what, some in (("differs", differ), ("gone", list(missing)), ("new", list(new))):
        for key in some[:10]:
            print(f"  {what}: {key}")
    return bool(differ or len(missing) or len(new))


def rows(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Each row's values, numbers as bytes."""
    columns = [[v if isinstance(v, str) else np.asarray(v).tobytes() for v in table[name]] for name in table]
    return list(zip(*columns, strict=True))


if __name__ == "__main__":
    sys.exit(main())
