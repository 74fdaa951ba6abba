"""Put plotly's script and its license into the wheel: plotly's package takes 40 MB, and pages need 5 of them."""

from importlib.metadata import files
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPT = "plotly.min.js"


class BundlePlotly(BuildHookInterface[Any]):
    """Adds two files of plotly's package to a wheel; a checkout that is installed in place reads them there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say which files a build adds."""
        if version != "standard":
            return
        found = {Path(str(file)).name: Path(str(file.locate())) for file in files("plotly") or ()}
        (license_name,) = (name for name in found if name.upper().startswith("LICENSE"))
        build_data["force_include"] |= {
            str(found[SCRIPT]): f"traube/_reports/{SCRIPT}",
            str(found[license_name]): "traube/_reports/plotly-LICENSE",
        }
