"""How Sphinx makes the site: `make docs` runs it, without a network and with warnings as errors."""

import os
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ["COLUMNS"] = "88"  # of help texts, whatever the terminal

project = "sketchlearn"
author = "the authors of sketchlearn"
release = metadata.version("sketchlearn")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "command_reference",
    "docstring_names",
    "old_addresses",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_templates", "_extensions", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5", "gallery/*.zip"]
templates_path = ["_templates"]

# Anchors such as privacy.md#people-not-rows, and lists of terms.
myst_enable_extensions = ["deflist", "colon_fence", "attrs_block"]
myst_heading_anchors = 3

# References that are written as such must lead somewhere; names in docstrings may also be plain code.
nitpicky = True
default_role = "name_or_code"
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # parameters say what they take, in words
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
nitpick_ignore_regex = [("py:class", ".*")]  # base classes that are nobody's to use

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(__init__|gallery_tables|published_)",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10,
    "abort_on_example_error": True,
    "parallel": 2,  # scripts at a time: most of them use one core
}

html_theme = "pydata_sphinx_theme"
html_title = "sketchlearn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
project_copyright = "MIT licence"
