"""Cost of the garbage collector for a command that imports much and ends: the same imports with
Python's own settings and after `collect_less`, as whole processes, in turns.
"""

import argparse
import statistics
import subprocess
import sys
import time

IMPORTS = "import dagster, mlflow, mlflow.store.tracking.sqlalchemy_store, great_expectations"
KINDS = {
    "Python's settings": IMPORTS,
    "collect_less": f"from traube._core.collector import collect_less; collect_less(); {IMPORTS}",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, code in KINDS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
            seconds[kind].append(time.perf_counter() - began)
    medians = {kind: statistics.median(values) for kind, values in seconds.items()}
    for kind, median in medians.items():
        print(f"{kind:18} {median:.2f} s (median of {rounds})")
    own, less = medians.values()
    print(f"ratio {less / own:.2f}")


if __name__ == "__main__":
    main()
