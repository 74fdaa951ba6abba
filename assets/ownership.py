"""Owner and code of an asset, which only Dagster's pages show."""

import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import dagster as dg

from traube._core import paths
from traube._core.errors import TraubeError
from traube._pipeline.params import load_params

HOSTS = re.compile(r"https://[^/@]*(github|gitlab)[^/@]*/")  # Dagster knows how these show a file


def with_owners_and_code(assets: Sequence[dg.AssetsDefinition]) -> list[dg.AssetsDefinition]:
    """Return assets with `owners` of params.yaml, and their code: at the checkout's origin, or on this machine."""
    with suppress(TraubeError):  # of a broken params.yaml; the graph is loaded all the same
        owners = load_params().owners
        assets = dg.map_asset_specs(lambda spec: spec.replace_attributes(owners=owners), assets)
    linked = dg.with_source_code_references(assets)
    with suppress(OSError):  # there is no git
        command = ["git", "-C", str(paths.PROJECT), "remote", "get-url", "origin"]
        origin = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
        if HOSTS.match(origin):
            mapping = dg.AnchorBasedFilePathMapping(paths.PROJECT, "")
            linked = dg.link_code_references_to_git(linked, origin.removesuffix(".git"), "main", mapping)
    return [asset for asset in linked if isinstance(asset, dg.AssetsDefinition)]
