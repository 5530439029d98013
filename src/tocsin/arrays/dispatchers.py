"""Dispatchers of kernels, which compile a kernel for its caller: Python, or another kernel.

Numba compiles every function for both: machine code and a wrapper that unboxes all columns, for Python, and
optimized code that its callers take in and optimize again. Here, a kernel that kernels call is translated
only as far as they need it, and optimized once in each kernel that Python calls.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import compiler, dispatcher, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from tocsin.arrays.compiled_kernels import InnerLibrary
from tocsin.arrays.kernel_cache import KernelCache

#: Numba's, which it does not declare.
_FunctionCompiler: Any = vars(dispatcher)["_FunctionCompiler"]
_Dispatcher: Any = CPUDispatcher


class _Compiler(_FunctionCompiler):
    is_inner = False

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cfunc_wrapper = True
        if self.is_inner:
            flags.no_cpython_wrapper = flags.no_compile = True
        return flags


@contextmanager
def _without_gc() -> Iterator[None]:
    """Compiling makes many objects and little garbage: to look for that takes a seventh of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class KernelDispatcher(_Dispatcher):
    """Calls a kernel. `overloads` has what is compiled for Python, `inner` what is compiled for kernels."""

    def __init__(
        self,
        py_func: Any,
        locals: Any = None,
        targetoptions: Any = None,
        pipeline_class: Any = compiler.Compiler,
    ) -> None:
        super().__init__(py_func, locals or {}, targetoptions or {}, pipeline_class)
        self._compiler = _Compiler(py_func, self.targetdescr, self.targetoptions, self.locals, pipeline_class)
        self._cache = KernelCache(self)
        self.inner: dict[tuple[Any, ...], Any] = {}
        self._is_called = False

    def _compile_for_args(self, *args: Any, **named: Any) -> Any:
        with global_compiler_lock:
            self._is_called = True
            try:
                return super()._compile_for_args(*args, **named)
            finally:
                self._is_called = False

    def compile(self, sig: Any) -> Any:
        """Compile for Python if it has just called, else for a kernel; what is there already is kept."""
        with global_compiler_lock:
            is_inner = not self._is_called
            overloads = self.inner if is_inner else self.overloads
            args, return_type = sigutils.normalize_signature(sig)
            if args not in overloads:
                with self._compiling_counter, _without_gc():
                    self._add(self._compiled(args, return_type, is_inner), is_inner)
            return overloads[args].entry_point

    def _compiled(self, args: tuple[Any, ...], return_type: Any, is_inner: bool) -> Any:
        found = self._cache.load(args, self.targetctx, is_inner)
        if found is None:
            self._compiler.is_inner = is_inner
            found = self._compiler.compile(args, return_type)
            if is_inner:
                found.library.__class__ = InnerLibrary
                found = found._replace(entry_point=object())
            else:
                for environment in found._find_referenced_environments():
                    found.codegen.set_env(environment.env_name, environment)
            self._cache.save(args, found, is_inner)
        return found

    def _add(self, found: Any, is_inner: bool) -> None:
        if is_inner:
            # Its entry point is but a name, by which callers find the code.
            self.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
            self.inner[tuple(found.signature.args)] = found
        else:
            self.add_overload(found)

    def get_overload(self, sig: Any) -> Any:
        """What a kernel that calls this one is to call."""
        return self.inner[sigutils.normalize_signature(sig)[0]].entry_point

    @property
    def nopython_signatures(self) -> list[Any]:
        return [found.signature for found in self.inner.values()]
