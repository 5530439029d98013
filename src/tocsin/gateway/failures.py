"""What the gateway refuses, and the answer that each refusal gets."""

from __future__ import annotations

from tocsin.errors import Error


class GatewayError(Error):
    """A request that is refused: an HTTP status, a short code for programs, and a sentence for people."""

    status = 400
    code = "bad-request"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        #: seconds after which it is worth trying again
        self.retry_after = retry_after


class BadRequest(GatewayError):
    """The request cannot be read."""


class LimitTooLarge(GatewayError):
    """A statement asks for longer lists than the server keeps."""

    code = "limit-too-large"


class Unauthorized(GatewayError):
    """There is no valid key."""

    status = 401
    code = "unauthorized"


class Forbidden(GatewayError):
    """The key is not for this."""

    status = 403
    code = "forbidden"


class NotFound(GatewayError):
    """There is no such thing, or it is not yours."""

    status = 404
    code = "not-found"


class Conflict(GatewayError):
    """It is there already."""

    status = 409
    code = "conflict"


class FedByJob(GatewayError):
    """A job feeds this gateway: nobody else declares or publishes anything here."""

    status = 409
    code = "fed-by-job"


class TooLarge(GatewayError):
    """The body is longer than the server takes."""

    status = 413
    code = "too-large"


class TooSlow(GatewayError):
    """The body did not come in time."""

    status = 408
    code = "too-slow"


class Unsupported(GatewayError):
    """The body is of a type that is not read here."""

    status = 415
    code = "unsupported-type"


class QuotaExceeded(GatewayError):
    """The tenant has used up what it may use."""

    status = 429
    code = "quota-exceeded"


class KeyReused(GatewayError):
    """An Idempotency-Key that came with another request before."""

    status = 422
    code = "key-reused"


class TooOld(GatewayError):
    """The cursor is older than what is retained: take a new snapshot."""

    status = 410
    code = "too-old"


class Unavailable(GatewayError):
    """The server is starting, stopping, or cannot write its log."""

    status = 503
    code = "unavailable"
