"""The documentation as a site: `make docs` builds it into docs/_build/html, without a network."""

import shlex
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path += [str(DOCS / "_ext"), str(DOCS.parent)]

import traube  # noqa: E402 (found by the line above)

project = "Traube"
author = "The Traube authors"
copyright = author
version = release = traube.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinxcontrib.mermaid",
    "sphinxcontrib.typer",
    "elsewhere",
    "fields",
    "living",
]
exclude_patterns = ["_build", "_ext"]
nitpicky = True
# Types of other libraries, whose own sites cannot be reached without a network, and words of numpydoc's entries.
nitpick_ignore_regex = [("py:.*", r"(?!traube\.).*")]

# The notebooks are stored with their outputs, which a test makes again.
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

autosummary_generate = True
autosummary_ignore_module_all = False  # what a module offers is its __all__
autodoc_typehints = "none"  # the docstrings say them
numpydoc_show_class_members = False  # the template lists them
# Drawings become SVG files here, so that a page asks no other site for a script.
mermaid_cmd = shlex.join([sys.executable, "-m", "mermaidx"])
mermaid_output_format = "svg"
typer_render_width = 100  # characters

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = f"Traube {release}"
html_static_path = ["_static"]
html_css_files = ["traube.css"]
html_extra_path = ["_build/living"]
html_show_sourcelink = False
html_sidebars = {"gallery": []}  # a page without pages below it
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
