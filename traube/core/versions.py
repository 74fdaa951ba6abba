"""The versions of installed packages. Light: plans are made of them."""

from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache
def installed(package: str) -> str:
    """Return a package's version, or "absent"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the packages' installed versions by name."""
    return {package: installed(package) for package in packages}
