"""Compiled kernels on disk, found by their content; one process compiles a kernel, and others wait for it."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
import zlib
from contextlib import suppress
from typing import Any

from numba.core import caching, compiler, serialize

from tocsin.arrays.compile_progress import compilation
from tocsin.arrays.kernel_folders import folders, locks
from tocsin.arrays.kernel_keys import content_key, variant_key

#: Seconds to wait for a process that compiles the same kernel; then it is compiled here too.
PATIENCE = 120.0
#: Seconds between attempts to get a lock.
_PAUSES = (0.005, 0.2)
_HEADER = b"tocsin kernel 1\n"

#: Numba's, which declares no types.
_dumps: Any = serialize.dumps
_rebuilt: Any = vars(compiler)["CompileResult"]._rebuild

#: Whether a kernel that is not there is compiled; else it raises KernelMissing.
may_compile = True

#: What this process is compiling now: the kernel's file, its dispatcher, and the folder of its lock.
_claims: dict[str, tuple[Any, str]] = {}


class KernelMissing(Exception):
    """A kernel has not been compiled, and may not be now."""


class KernelCache(caching._Cache):
    """The cache of one kernel's dispatcher.

    A file that is missing, of other content, truncated or not understood is a miss, and a file that cannot be
    written is left out: neither is ever an error.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._is_enabled = True

    @property
    def cache_path(self) -> str | None:
        return folders()[1]

    def enable(self) -> None:
        self._is_enabled = True

    def disable(self) -> None:
        self._is_enabled = False

    def flush(self) -> None:
        """Nothing to forget: a file is replaced when its kernel is compiled again."""

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled kernel, or None if this process is to compile it."""
        target.refresh()
        _release_failed()
        if not self._is_enabled:
            return None
        name = self._file_name(signature, target.codegen())
        found = self._find(name, target)
        if found is None and not may_compile:
            raise KernelMissing(f"{self._kernel.py_func.__module__}.{self._kernel.py_func.__qualname__}")
        if found is None:
            compilation.begin(self._kernel)
            if self._claim(name):
                found = self._find(name, target)
            if found is not None:
                _release(name)
                compilation.end(self._kernel, is_compiled=False)
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what has been compiled, and let waiting processes have it."""
        if not self._is_enabled:
            return
        name = self._file_name(signature, compiled.codegen)
        folder = folders()[1]
        is_portable = not compiled.library.has_dynamic_globals and not any(
            not lifted.can_cache for lifted in compiled.lifted
        )
        if folder is not None and is_portable:
            _write(os.path.join(folder, name), content_key(self._kernel), _dumps(compiled._reduce()))
        _release(name)
        compilation.end(self._kernel)

    def _file_name(self, signature: Any, codegen: Any) -> str:
        function = self._kernel.py_func
        variant = variant_key(self._kernel, signature, codegen.magic_tuple())
        name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        return f"{name[-100:]}-{variant}.kernel"

    def _find(self, name: str, target: Any) -> Any:
        content = content_key(self._kernel)
        for folder in folders()[0]:
            data = _read(os.path.join(folder, name), content)
            if data is not None:
                # A class of its signature may have moved, or another Numba may have written it.
                with suppress(Exception):
                    return _rebuilt(target, *pickle.loads(data))
        return None

    def _claim(self, name: str) -> bool:
        """Wait until no other process compiles the kernel; whether there was one."""
        folder = folders()[1]
        if folder is None:
            return False
        _claims[name] = self._kernel, folder
        number, waited, pause = _number(name), 0.0, _PAUSES[0]
        while not locks(folder).acquire(number) and waited < PATIENCE:
            time.sleep(pause)
            waited += pause
            pause = min(2 * pause, _PAUSES[1])
        return waited > 0


def _number(name: str) -> int:
    """The place of a kernel's lock in the file of locks."""
    return zlib.crc32(name.encode())


def _release(name: str) -> None:
    claim = _claims.pop(name, None)
    if claim is not None:
        locks(claim[1]).release(_number(name))


def _release_failed() -> None:
    """Let go of kernels whose compilation has raised: those that are not being compiled any more."""
    for name, (kernel, _) in list(_claims.items()):
        if not kernel.is_compiling:
            _release(name)
            compilation.end(kernel, is_compiled=False)


def _read(path: str, content: bytes) -> bytes | None:
    """What was compiled, if the file is whole and of this content."""
    with suppress(OSError), open(path, "rb") as file:
        data = file.read()
        start = len(_HEADER) + len(content) + 4
        header = _HEADER + content + data[start - 4 : start]
        if data[:start] == header and int.from_bytes(header[-4:], "little") == zlib.crc32(data[start:]):
            return data[start:]
    return None


def _write(path: str, content: bytes, data: bytes) -> None:
    """Write a file in one step; not at all on a full disk."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".writing-")
        with open(handle, "wb") as file:
            file.writelines((_HEADER, content, zlib.crc32(data).to_bytes(4, "little"), data))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)
