"""What a compiled kernel was made from, as keys that depend on content alone: not on a file's time or place.

A kernel's machine code holds that of the kernels it calls, and the constants they read. So its content is the
byte code of all of them, the constants, the fields of named tuples, and the source of modules whose functions
make code by themselves (intrinsics, overloads).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config

from tocsin import __version__

#: What Numba takes from the environment and lets into the code it makes.
_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE")


def variant_key(kernel: Any, signature: Iterable[Any], cpu: tuple[str, ...]) -> str:
    """Names one compilation of a kernel: argument types, options, CPU, and the versions that made it."""
    versions = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__)
    settings = [vars(config)[name] for name in _SETTINGS]
    types = [_type_text(kind) for kind in signature]
    options = sorted(kernel.targetoptions.items())
    return sha256(repr((types, options, cpu, versions, settings)).encode()).hexdigest()[:20]


def content_key(kernel: Any) -> bytes:
    """Digest of the kernel's content. Cost: a step for each function and constant that it leads to."""
    found: dict[int, Any] = {}
    digest = sha256()
    todo = [kernel]
    while todo:
        thing = todo.pop()
        if id(thing) not in found:
            found[id(thing)] = thing
            own, others = _described(thing)
            digest.update(own)
            todo.extend(others)
    return digest.digest()


def _type_text(kind: Any) -> str:
    """A Numba type with the fields of its named tuples, which its own text leaves out."""
    fields = getattr(kind, "fields", ())
    owner = getattr(kind, "instance_class", None)
    inner = getattr(kind, "types", None) or [
        part for part in (getattr(kind, name, None) for name in ("dtype", "columns")) if part is not None
    ]
    names = f"{owner.__module__}.{owner.__qualname__}{fields}" if owner is not None else ""
    return f"{kind}{names}[{','.join(map(_type_text, inner))}]"


#: By id: what was described, its digest, and what it leads to. Holding it keeps its id from being reused.
_descriptions: dict[int, tuple[Any, bytes, list[Any]]] = {}


def _described(thing: Any) -> tuple[bytes, list[Any]]:
    """A digest of a kernel's or module's own content, and the kernels and modules that it refers to."""
    known = _descriptions.get(id(thing))
    if known is None:
        parts, others = (
            _described_module(thing) if isinstance(thing, ModuleType) else _described_kernel(thing)
        )
        known = _descriptions[id(thing)] = (thing, sha256("\n".join(parts).encode()).digest(), others)
    return known[1], known[2]


def _described_kernel(kernel: Any) -> tuple[list[str], list[Any]]:
    function: FunctionType = kernel.py_func
    parts = [function.__module__, function.__qualname__, repr(sorted(kernel.targetoptions.items()))]
    parts += [repr(function.__defaults__), *_code_parts(function.__code__, function.__doc__)]
    others: list[Any] = []
    names = set(_names(function.__code__))
    _refer(
        {name: function.__globals__[name] for name in names & function.__globals__.keys()},
        names,
        parts,
        others,
    )
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        _refer({name: cell.cell_contents}, names, parts, others)
    return parts, others


def _described_module(module: ModuleType) -> tuple[list[str], list[Any]]:
    """A module whose functions make code: its source, and all it has from other modules of the package."""
    parts, others = [module.__name__, _source(module)], list[Any]()
    content = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    _refer(content, set(), parts, others)
    return parts, [other for other in others if other is not module]


def _source(module: ModuleType) -> str:
    """A digest of a module's source; where that is not installed, the version stands for it."""
    loader: Any = module.__spec__.loader if module.__spec__ else None
    try:
        return sha256(loader.get_data(module.__file__)).hexdigest()
    except (OSError, AttributeError):
        return __version__


def _refer(
    content: dict[str, Any],
    names: set[str],
    parts: list[str],
    others: list[Any],
    inside: tuple[Any, ...] = (),
) -> None:
    """Add what names stand for: constants to `parts`, kernels and modules that make code to `others`.

    Of a module, only the attributes among `names`.
    """
    for name, value in sorted(content.items()):
        if hasattr(value, "py_func"):
            others.append(value)
        elif isinstance(value, ModuleType):
            parts.append(f"{name}={value.__name__}")
            if value not in inside:
                _refer(_among(vars(value), names), names, parts, others, (*inside, value))
        else:
            parts.append(f"{name}={_constant_text(value)}")
            home = getattr(value, "__module__", None) or type(value).__module__
            if _makes_code(home) and not hasattr(value, "_fields") and home in sys.modules:
                others.append(sys.modules[home])


def _among(content: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: content[name] for name in names & content.keys()}


def _makes_code(module: object) -> bool:
    """Whether functions of a module may make code: of ours, all but the decorators, whose options count."""
    return isinstance(module, str) and module.partition(".")[0] == "tocsin" and module != "tocsin.arrays.jit"


def _constant_text(value: Any) -> str:
    """A constant by type and value; of anything else, where it is defined."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", "")
        return f"{type(value).__name__}{fields}({','.join(map(_constant_text, value))})"
    if isinstance(value, frozenset):
        return f"frozenset({','.join(sorted(map(_constant_text, value)))})"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return f"{type(value).__qualname__}:{value!r}"
    fields = getattr(value, "_fields", "")
    place = getattr(value, "__module__", ""), getattr(value, "__qualname__", type(value).__qualname__)
    return f"{place}{fields}"


def _code_parts(code: CodeType, doc: str | None = None) -> Iterator[str]:
    """What a function does, without its lines, its file and its documentation."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_kwonlyargcount))
    yield getattr(code, "co_exceptiontable", b"").hex()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        elif doc is None or constant != doc:
            yield _constant_text(constant)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
