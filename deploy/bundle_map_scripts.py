"""Put the scripts of datamapplot's pages, and the licenses of all that is in them, into the package.

datamapplot's pages load them from a CDN; ours hold them, packed. Their versions and checksums stand in
`map_scripts/`: run this again when these change. Needs npm.
"""

import gzip
import json
import shutil
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parent / "traube" / "_reports" / "map_scripts"
SCRIPTS = ("deck.gl/dist.min.js", "apache-arrow/Arrow.es2015.min.js", "d3/dist/d3.min.js")
LICENSES = ("LICENSE*", "LICENCE*", "license*", "NOTICE*", "COPYING*")


def collect_notices(packages: Path) -> str:
    """Return each license text once, below the packages that have it."""
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(packages.rglob("package.json")):
        about = json.loads(file.read_text(encoding="utf-8"))
        if not file.parent.parent.name.startswith(("node_modules", "@")) or "version" not in about:
            continue  # a folder inside a package
        texts = [
            text.read_text(encoding="utf-8").strip() for kind in LICENSES for text in sorted(file.parent.glob(kind))
        ]
        license_text = "\n\n".join(dict.fromkeys(texts)) or f"License: {about.get('license', 'see its repository')}"
        holders[license_text].append(f"{about['name']} {about['version']}")
    parts = [f"{', '.join(sorted(set(names)))}\n\n{text}" for text, names in holders.items()]
    head = (
        "The packed files beside this one are deck.gl, Apache Arrow and D3, as they are published on npm. These are\n"
    )
    return (
        head
        + "the licenses of the packages that they are built of.\n\n"
        + f"\n\n{'-' * 80}\n\n".join(sorted(parts))
        + "\n"
    )


def main() -> None:
    """Write the packed scripts, and their licenses."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is not installed: it comes with Node.js")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "map_scripts" / name, folder)
        omitted = [f"--omit={kind}" for kind in ("dev", "optional", "peer")]
        subprocess.run([npm, "ci", "--ignore-scripts", *omitted], cwd=folder, check=True)  # noqa: S603
        packages = Path(folder, "node_modules")
        TARGET.mkdir(exist_ok=True)
        for script in SCRIPTS:
            packed = gzip.compress((packages / script).read_bytes(), mtime=0)
            (TARGET / f"{script.split('/')[0]}.js.gz").write_bytes(packed)
        (TARGET / "NOTICES.txt").write_text(collect_notices(packages), encoding="utf-8")


if __name__ == "__main__":
    main()
