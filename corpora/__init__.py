"""Definitions of corpora, and what makes the embedded ones out of installed packages."""
