"""Python imports this at its start in every process of a program under `h2dlint trace`: the folder is on PYTHONPATH.

It starts the recording, then hands over to the sitecustomize that the environment has of its own, if there is one.
"""

import os
import sys


def _start() -> None:
    folder = os.environ.get("H2DLINT_TRACE", "")
    if not folder:
        return
    try:
        from h2dlint.trace.start import start
    except Exception as error:  # another environment, without h2dlint: the program runs on, and the report says so
        name = os.path.join(folder, f"{os.getpid()}.trouble")
        with open(name, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{sys.executable}\n{type(error).__name__}: {error}")
        return
    start(folder)


def _hand_over() -> None:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    sys.path[:] = others
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


_start()
_hand_over()
