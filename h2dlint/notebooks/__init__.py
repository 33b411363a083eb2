"""Jupyter notebooks: their code cells are one module, in order.

`document` knows the file, `magics` what IPython adds to Python, `module` puts cells together and takes them apart
again, `places` carries what was found over to the file, and `view` says it in cells and lines.
"""

SUFFIX = ".ipynb"


def is_notebook(path: str) -> bool:
    """Whether a file is a notebook, by its name."""
    return path.endswith(SUFFIX)
