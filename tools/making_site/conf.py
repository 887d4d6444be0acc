"""Sphinx's settings for the site; see tools/build_site.py, which runs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # Sphinx may be started by itself

from _lockstep import __version__

project = "Lockstep"
project_copyright = "the authors of Lockstep, Apache License 2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["_build"]
# Headings are linked to as on GitHub.
myst_heading_anchors = 6
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# A page that stands in no navigation, a link or anchor that leads nowhere, a docstring that cannot be read: errors.
nitpicky = False
suppress_warnings: list[str] = []

html_theme = "furo"
html_title = f"Lockstep {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# Nothing is fetched when a page is looked at: the theme's own files are copied, its fonts are those of the reader.
html_static_path = ["static"]
html_css_files = ["lockstep.css"]
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"


def _begin_anew(app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    """Keep what stands before a colon in the docstring of a property from being read as its type."""
    if what in ("attribute", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def setup(app: Any) -> None:
    """Hear of docstrings before they are read as Google's."""
    app.connect("autodoc-process-docstring", _begin_anew, priority=400)
