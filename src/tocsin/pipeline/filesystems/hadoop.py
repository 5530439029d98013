"""The driver's files on any file system that Spark reaches: markers, job descriptions, batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tocsin.pipeline.filesystems.local import FileSystem, LocalFileSystem

P = ParamSpec("P")
R = TypeVar("R")


def _raising_oserror(method: Callable[P, R]) -> Callable[P, R]:
    """Convert exceptions of Java's file systems to OSError."""

    @wraps(method)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return method(*arguments, **named)
        except Py4JJavaError as failure:
            raise OSError(str(failure.java_exception.toString())) from None

    return run


class SparkFileSystem:
    """Any file system that Spark reaches: the local disk by system calls, others by Hadoop's client."""

    def __init__(self, spark: SparkSession) -> None:
        self._hadoop = HadoopFileSystem(spark)
        self._local = LocalFileSystem()

    def scheme(self, path: str) -> str:
        """`file`, `hdfs`, `s3a`, …"""
        return self._hadoop.scheme(path)

    def exists(self, path: str) -> bool:
        files, inner = self._at(path)
        return files.exists(inner)

    def make_folder(self, path: str) -> None:
        files, inner = self._at(path)
        files.make_folder(inner)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder; the target must not exist."""
        files, inner = self._at(source)
        files.rename(inner, self._at(target)[1])

    def delete(self, path: str) -> None:
        files, inner = self._at(path)
        files.delete(inner)

    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        files, inner = self._at(path)
        return files.names(inner)

    def read_text(self, path: str) -> str:
        files, inner = self._at(path)
        return files.read_text(inner)

    def write_text(self, path: str, text: str) -> None:
        """Write to a temporary file and rename it over the target, so that readers see one or the other."""
        files, inner = self._at(path)
        files.write_text(inner, text)

    def _at(self, path: str) -> tuple[FileSystem, str]:
        local = self._hadoop.local(path)
        return (self._hadoop, path) if local is None else (self._local, local)


class HadoopFileSystem:
    """Hadoop's client, for HDFS and any other file system that Spark is configured for."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self._conf: Any = context._jsc.hadoopConfiguration()

    @_raising_oserror
    def scheme(self, path: str) -> str:
        """`file`, `hdfs`, `s3a`, …"""
        return str(self._system(path).getUri().getScheme())

    @_raising_oserror
    def local(self, path: str) -> str | None:
        """The path on the local disk; None if it is on another file system."""
        uri = self._system(path).makeQualified(self._path(path)).toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def full(self, path: str) -> str:
        """The absolute path with its scheme."""
        return str(self._system(path).makeQualified(self._path(path)).toString())

    @_raising_oserror
    def exists(self, path: str) -> bool:
        return bool(self._system(path).exists(self._path(path)))

    @_raising_oserror
    def make_folder(self, path: str) -> None:
        if not self._system(path).mkdirs(self._path(path)):
            raise OSError(f"cannot create the folder {path}")

    @_raising_oserror
    def rename(self, source: str, target: str) -> None:
        """Move a file or folder; the target must not exist."""
        if not self._system(source).rename(self._path(source), self._path(target)):
            raise OSError(f"cannot move {source} to {target}")

    @_raising_oserror
    def delete(self, path: str) -> None:
        self._system(path).delete(self._path(path), True)

    @_raising_oserror
    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        return [str(status.getPath().getName()) for status in self._system(path).listStatus(self._path(path))]

    @_raising_oserror
    def read_text(self, path: str) -> str:
        stream = self._system(path).open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    @_raising_oserror
    def write_text(self, path: str, text: str) -> None:
        """Write to a temporary file and rename it over the target, so that readers see one or the other."""
        aside = f"{path}.writing"
        stream = self._system(path).create(self._path(aside), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._system(path).getUri(), self._conf
        )
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context.rename(self._path(self.full(aside)), self._path(self.full(path)), options)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._conf)
