"""Compiled kernels and their form on disk: machine code, or code that other kernels take in."""

from __future__ import annotations

import pickle
from typing import Any

import llvmlite.binding as llvm
from numba.core import compiler, serialize
from numba.core.codegen import JITCodeLibrary

#: Numba's, which declares no types.
_dumps: Any = serialize.dumps
_result: Any = vars(compiler)["compile_result"]


class InnerLibrary(JITCodeLibrary):
    """The code of a kernel that kernels call: linked into theirs, and never run by itself."""

    def finalize(self) -> None:
        """Take in the kernels that this one calls."""
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(library, "_reload_init"):  # from Numba 0.62 on
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    @property
    def bitcode(self) -> bytes:
        self._ensure_finalized()
        return bytes(self._final_module.as_bitcode())

    def restore(self, bitcode: bytes) -> None:
        """Have the code that another process compiled."""
        self._final_module = llvm.parse_bitcode(bitcode)
        self._finalized = True


def dump(compiled: Any, is_inner: bool) -> bytes:
    """A compiled kernel as bytes."""
    library, description = compiled.library, compiled.fndesc
    # Only compiling needs them.
    description.typemap = description.calltypes = None
    code = library.bitcode if is_inner else library._get_compiled_object()
    environments = tuple(compiled._find_referenced_environments())
    parts = (
        is_inner,
        library.name,
        code,
        description,
        compiled.environment,
        compiled.signature,
        compiled.reload_init,
        environments,
    )
    return bytes(_dumps(parts))


def load(data: bytes, target: Any) -> Any:
    """A compiled kernel from bytes."""
    is_inner, name, code, description, environment, signature, reload_init, environments = pickle.loads(data)
    for function in reload_init:
        function()
    library = target.codegen().create_library(name)
    if is_inner:
        library.__class__ = InnerLibrary
        library.restore(code)
        entry_point: Any = object()
    else:
        library.enable_object_caching()
        library._set_compiled_object(code)
        library._finalize_final_module()
        library._codegen._engine._defined_symbols.add(description.llvm_cpython_wrapper_name)
        entry_point = target.get_executable(library, description, environment)
        for each in environments:
            library.codegen.set_env(each.env_name, each)
    return _result(
        typing_context=target.typing_context,
        target_context=target,
        entry_point=entry_point,
        signature=signature,
        objectmode=False,
        lifted=(),
        fndesc=description,
        library=library,
        environment=environment,
        reload_init=reload_init,
        referenced_envs=environments,
    )
