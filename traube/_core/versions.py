"""The versions of installed packages. Light: plans are made of them."""

from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache
def get_version(package: str) -> str:
    """Return a package's version, or "absent"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def get_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of packages, by name."""
    return {package: get_version(package) for package in packages}
