"""Buttons that open a page's notebook on Binder and Colab, once CITATION.cff says where the repository is.

The one place is its key `repository-code`, as in `repository-code: "https://github.com/OWNER/NAME"`; while it is not
there, no page has a button. What a button leads to is the notebook without outputs, in notebooks/.
"""

import re
from pathlib import Path

import yaml

SERVICES = {
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
}
EXECUTED = re.compile(r"book/_executed/[^/]+/([^/]+\.ipynb)")


def repository(place):
    """The address in CITATION.cff of a root; empty where there is none."""
    path = Path(place) / "CITATION.cff"
    return (
        (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("repository-code", "")
        if path.is_file()
        else ""
    )


def configure(app, config):
    """Tell the theme, before it reads its options."""
    if address := repository(app.srcdir):
        theme = config.html_theme_options
        theme |= {
            "repository_url": address.rstrip("/"),
            "repository_branch": "main",
            "use_repository_button": True,
        }
        theme["launch_buttons"] = {**theme.get("launch_buttons", {}), **SERVICES}


def to_notebooks(app, pagename, templatename, context, doctree):
    """Let buttons lead to the notebook that a page was run from: executed ones are not in the repository."""
    for button in context.get("header_buttons") or ():
        for entry in button.get("buttons", [button]):
            if isinstance(entry.get("url"), str):
                entry["url"] = EXECUTED.sub(r"notebooks/\1", entry["url"])


def setup(app):
    app.connect("config-inited", configure, priority=100)
    app.connect("html-page-context", to_notebooks, priority=600)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
