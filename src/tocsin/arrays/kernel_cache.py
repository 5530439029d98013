"""Compiled kernels on disk, found by their content; one process compiles a kernel, and others wait for it."""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from numba.core.runtime.nrt import rtsys

from tocsin.arrays.compile_progress import compilation
from tocsin.arrays.compiled_kernels import dump, load
from tocsin.arrays.kernel_folders import folders, locks
from tocsin.arrays.kernel_keys import content_key, variant_key
from tocsin.arrays.shipped_kernels import LEVEL, shipped_folder, supports_level

#: Seconds to wait for a process that compiles the same kernel; then it is compiled here too.
PATIENCE = 120.0
#: Seconds between attempts to get a lock.
_PAUSES = (0.005, 0.2)
_HEADER = b"tocsin kernel 2\n"

#: Whether a kernel that is not there is compiled; else it raises KernelMissing.
may_compile = True

#: What this process is compiling now: the kernel's file, its dispatcher, and the folder of its lock.
_claims: dict[str, tuple[Any, str]] = {}


class KernelMissing(Exception):
    """A kernel has not been compiled, and may not be now."""


class KernelCache:
    """The cache of one kernel's dispatcher.

    A file that is missing, of other content, truncated or not understood is a miss, and a file that cannot be
    written is left out: neither is ever an error.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def load(self, signature: Any, target: Any, is_inner: bool) -> Any:
        """The compiled kernel, or None if this process is to compile it."""
        rtsys.initialize(target)
        _release_failed()
        found = self._find(signature, target, is_inner)
        if found is None and not may_compile:
            raise KernelMissing(f"{self._kernel.py_func.__module__}.{self._kernel.py_func.__qualname__}")
        if found is None:
            # Only compiling needs what Numba knows about Python and NumPy, which takes a while to import.
            target.refresh()
            compilation.begin(self._kernel)
            name = self._file_name(signature, target.codegen().magic_tuple(), is_inner)
            self._claim(name)
            # Another process may have compiled it since.
            found = self._find(signature, target, is_inner)
            if found is not None:
                _release(name)
                compilation.end(self._kernel, is_compiled=False)
        return found

    def save(self, signature: Any, compiled: Any, is_inner: bool) -> None:
        """Keep what has been compiled, and let waiting processes have it."""
        name = self._file_name(signature, compiled.codegen.magic_tuple(), is_inner)
        folder = folders()[1]
        if folder is not None and not compiled.library.has_dynamic_globals:
            _write(os.path.join(folder, name), content_key(self._kernel), dump(compiled, is_inner))
        _release(name)
        compilation.end(self._kernel)

    def _file_name(self, signature: Any, cpu: tuple[str, ...], is_inner: bool) -> str:
        function = self._kernel.py_func
        variant = variant_key(self._kernel, signature, cpu)
        name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        return f"{name[:180]}-{cpu[1]}-{variant}.{'inner' if is_inner else 'kernel'}"

    def _find(self, signature: Any, target: Any, is_inner: bool) -> Any:
        """The kernel as compiled for all machines like this one, or for this one."""
        triple, cpu, features = target.codegen().magic_tuple()
        names = [self._file_name(signature, (triple, cpu, features), is_inner)]
        if supports_level() and cpu != LEVEL and not _wants_native():
            names.insert(0, self._file_name(signature, (triple, LEVEL, ""), is_inner))
        for folder in _reading_folders():
            for name in names:
                data = _read(os.path.join(folder, name), content_key(self._kernel))
                if data is not None:
                    # A class of its signature may have moved, or another Numba may have written it.
                    with suppress(Exception):
                        return load(data, target)
        return None

    def _claim(self, name: str) -> None:
        """Wait until no other process compiles the kernel."""
        folder = folders()[1]
        if folder is None:
            return
        _claims[name] = self._kernel, folder
        number, waited, pause = _number(name), 0.0, _PAUSES[0]
        while not locks(folder).acquire(number) and waited < PATIENCE:
            time.sleep(pause)
            waited += pause
            pause = min(2 * pause, _PAUSES[1])


def _wants_native() -> bool:
    """Whether only kernels for this machine's own CPU are used, as `TOCSIN_NATIVE=1` asks."""
    return os.environ.get("TOCSIN_NATIVE", "0") not in ("", "0")


def _reading_folders() -> Iterator[str]:
    """Where kernels may be. Other folders are looked for only if the package does not carry a kernel."""
    shipped = shipped_folder()
    if shipped is not None:
        yield shipped
    yield from folders()[0]


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
