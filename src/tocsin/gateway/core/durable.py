"""Durability of the hub: every mutation is a log record, on disk before it is acknowledged.

A record is applied, then appended to the log, then made durable by `sync`; only then may its changes leave
the hub. The engine is deterministic, so a snapshot plus the records after it rebuild the same hub with the
same cursors. If a record cannot be written, the engine is ahead of the disk: the hub then refuses everything,
and a restart recovers from disk. No network and no clock. Not thread-safe.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from tocsin.errors import Error, StateError
from tocsin.gateway.core.history import DeliveredBatch
from tocsin.gateway.core.protocol import Ack
from tocsin.gateway.core.storage import files, snapshots
from tocsin.gateway.core.storage.log import Log, Record
from tocsin.gateway.failures import Unavailable

logger = logging.getLogger(__name__)

#: A snapshot is due when the log has grown to this, and to twice the last snapshot.
SNAPSHOT_BYTES = 64 << 20


class DurableHub(ABC):
    """A folder with a lock, a log and snapshots. Subclasses define what records do."""

    #: the last record that was applied
    number: int
    #: prefix of cursors: within an epoch, no record number is delivered twice
    epoch: str

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _locked(folder)
        self._undelivered: list[tuple[str, DeliveredBatch]] = []
        self._snapshot_bytes = 0
        #: size of the log at which a failed snapshot is retried
        self._retry_bytes = 0
        #: why the hub refuses everything, if it does
        self.failure: str | None = None
        self._log = Log(folder)
        try:
            self._recover()
        except OSError as failure:
            self.close()
            reason = f"{failure.filename or folder}: {failure.strerror or failure}"
            raise StateError(
                f"{reason}. Nothing is lost: repair the disk or free some space, and start again"
            ) from failure
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _restore(self) -> int:
        """Load the newest snapshot, or start empty; returns the last record that it covers."""

    @abstractmethod
    def _state(self) -> snapshots.State:
        """The state for a snapshot to hold."""

    @abstractmethod
    def _perform(self, record: Record) -> Ack:
        """Apply a record, new or replayed. If it raises an Error, nothing has changed."""

    @property
    def records_bytes(self) -> int:
        """Bytes of log that a restart would replay."""
        return self._log.size

    @property
    def is_dirty(self) -> bool:
        """Whether there are records that `sync` would write."""
        return self._log.is_dirty

    def sync(self) -> None:
        """Make all records durable."""
        self.refuse_if_failed()
        try:
            self._log.sync()
        except (OSError, StateError) as failure:
            raise self._fail(failure) from failure

    def refuse_if_failed(self) -> None:
        """Raise Unavailable if a record could not be written: the engine is ahead of the disk."""
        if self.failure is not None:
            raise Unavailable(self.failure)

    def drain_batches(self) -> list[tuple[str, DeliveredBatch]]:
        """Take the changes since the last call, by full id. Deliver them only after `sync`."""
        fresh, self._undelivered = self._undelivered, []
        return fresh

    @property
    def is_snapshot_due(self) -> bool:
        return self._log.size > max(SNAPSHOT_BYTES, 2 * self._snapshot_bytes, self._retry_bytes)

    def snapshot(self) -> None:
        """Write a snapshot and drop the log before it. Cost: linear in the state.

        A failure loses nothing: older files are removed only once the new snapshot is on disk.
        """
        if (self._folder / snapshots.name(self.number)).exists():
            return
        self.sync()
        # If this fails, retry only after the log has grown by another SNAPSHOT_BYTES.
        self._retry_bytes = self._log.size + SNAPSHOT_BYTES
        self._log.rotate(self.number + 1)
        self._snapshot_bytes = snapshots.write(self._folder, self._state())
        self._retry_bytes = 0
        snapshots.forget(self._folder, self.number)
        self._log.forget(self.number + 1)

    def close(self) -> None:
        """Release the folder; later calls do nothing."""
        self._log.close()
        if self._lock >= 0:
            lock, self._lock = self._lock, -1
            os.close(lock)

    def _recover(self) -> None:
        """Rebuild the hub from disk."""
        self.number = self._restore()
        self._log = Log(self._folder)
        for record in self._log.replay(self.number):
            self._perform(record)
            self.number = record.number
        self._undelivered = []
        self.epoch = self._epoch(is_new=self._log.is_torn)
        self._log.resume(self.number + 1)

    def _epoch(self, *, is_new: bool) -> str:
        """The epoch, durable before its first record; a new one if asked for or if its file is missing.

        After a torn end it must be new: the lost records' numbers are reused, and clients may have seen them.
        """
        path = self._folder / "epoch"
        if path.exists() and not is_new:
            content = files.read_all(path)
            if re.fullmatch(rb"[0-9a-f]{8}", content):
                return content.decode()
        epoch = secrets.token_hex(4)
        files.replace_file(path, epoch.encode())
        return epoch

    def _fail(self, failure: Exception) -> Unavailable:
        """Refuse everything from now on; returns the error to raise."""
        said = (failure.strerror if isinstance(failure, OSError) else None) or str(failure)
        self.failure = f"the log cannot be written ({said}); the hub refuses all requests until a restart"
        self._undelivered = []
        return Unavailable(self.failure)

    def _accept(self, head: dict[str, Any], body: bytes = b"") -> Ack:
        self.refuse_if_failed()
        record = Record(self.number + 1, head, body)
        n_before = len(self._undelivered)
        try:
            ack = self._perform(record)
        except Error:
            raise
        except Exception:
            # The engine may have applied part of the record: rebuild it from disk.
            logger.exception("record %d (%s) failed; recovering from disk", record.number, head["op"])
            fresh = self._undelivered[:n_before]
            try:
                self._log.sync()
                self._log.close()
                self._recover()
            except Exception as failure:
                raise self._fail(failure) from failure
            self._undelivered = fresh
            raise
        try:
            self._log.append(record)
        except (OSError, StateError) as failure:
            raise self._fail(failure) from failure
        self.number = record.number
        return ack


def _locked(folder: Path) -> int:
    """Lock the folder until the process ends. Raises StateError if another process holds the lock."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StateError(f"another process is using {folder}") from None
    return descriptor
