"""Parts of torch that know functions by identity, and must go on doing so while wrappers stand in front of these.

Each looks for something private of torch's, and does nothing where that is not there: another torch does it in another
way, and tests run what depends on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

Function = Callable[..., Any]


def let_torch_remember() -> None:
    """Has torch make its list of factories for default devices, which it keeps, while the originals are in place."""
    try:
        from torch.utils._device import _device_constructors

        _device_constructors()
    except (ImportError, TypeError):
        pass


def tell_torchscript(functions: Iterable[tuple[str, Function]]) -> None:
    """Makes functions known by the names of the operators that they are: originals and wrappers alike."""
    try:
        from torch.jit._builtins import _register_builtin

        for name, function in functions:
            _register_builtin(function, f"aten::{name}")
    except (ImportError, TypeError):
        pass


def tell_dynamo(pairs: Iterable[tuple[Function, Function]]) -> None:
    """Has torch.compile know originals, where it made its list of functions while wrappers were in their places."""
    rules: Any = sys.modules.get("torch._dynamo.trace_rules")
    find = getattr(rules, "get_torch_obj_rule_map", None)
    if find is None or not find.cache_info().currsize:
        return
    known = find()
    for original, hooked in pairs:
        if hooked in known:
            known.setdefault(original, known[hooked])
