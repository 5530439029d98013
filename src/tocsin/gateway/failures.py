"""Errors of the gateway, each with its HTTP status and code."""

from __future__ import annotations

from tocsin.errors import Error


class GatewayError(Error):
    """A refused request: an HTTP status, a short code for programs, and a message for people."""

    status = 400
    code = "bad-request"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        #: seconds after which a retry makes sense
        self.retry_after = retry_after


class BadRequest(GatewayError):
    """The request is malformed."""


class LimitTooLarge(GatewayError):
    """A statement asks for longer lists than the server maintains."""

    code = "limit-too-large"


class Unauthorized(GatewayError):
    """There is no valid key."""

    status = 401
    code = "unauthorized"


class Forbidden(GatewayError):
    """The key does not allow this."""

    status = 403
    code = "forbidden"


class NotFound(GatewayError):
    """It does not exist, or belongs to another tenant."""

    status = 404
    code = "not-found"


class Conflict(GatewayError):
    """It exists already."""

    status = 409
    code = "conflict"


class FedByJob(GatewayError):
    """A job feeds this gateway: clients cannot declare or publish."""

    status = 409
    code = "fed-by-job"


class TooLarge(GatewayError):
    """The body exceeds the size limit."""

    status = 413
    code = "too-large"


class TooSlow(GatewayError):
    """The body did not arrive in time."""

    status = 408
    code = "too-slow"


class Unsupported(GatewayError):
    """The content type of the body is not supported."""

    status = 415
    code = "unsupported-type"


class QuotaExceeded(GatewayError):
    """The tenant has used up a quota."""

    status = 429
    code = "quota-exceeded"


class KeyReused(GatewayError):
    """The Idempotency-Key was used for a different request."""

    status = 422
    code = "key-reused"


class TooOld(GatewayError):
    """The cursor is older than the retained history: a new snapshot is needed."""

    status = 410
    code = "too-old"


class Unavailable(GatewayError):
    """The server is starting, stopping, overloaded, or cannot write its log."""

    status = 503
    code = "unavailable"
