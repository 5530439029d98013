"""JSON schemas of responses."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def _object(required: str, **properties: Schema) -> Schema:
    return {"type": "object", "required": required.split(), "properties": properties}


TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
ANYTHING: Schema = {}


def listed(name: str, item: Schema) -> Schema:
    """An object with one list."""
    return _object(name, **{name: {"type": "array", "items": item}})


ERROR = _object(
    "error",
    error=_object(
        "code message",
        code=TEXT,
        message=TEXT,
        line=WHOLE,
        column=WHOLE,
        start=WHOLE,
        end=WHOLE,
        hint=TEXT,
    ),
)
SOURCE = _object("kind name", kind=TEXT, name=TEXT, key=TEXT, columns={"type": "object"}, counts=ANYTHING)
RECEIPT = _object("cursor rows changes", cursor=TEXT, rows=WHOLE, changes=WHOLE)
SUBSCRIPTION = _object(
    "id sql params kind state",
    id=TEXT,
    sql=TEXT,
    params={"type": "object"},
    kind=TEXT,
    repeat=TRUTH,
    policy=TEXT,
    throttle={"type": "number"},
    temporary=TRUTH,
    state=TEXT,
)
SUBSCRIPTIONS = _object(
    "subscriptions next",
    subscriptions={"type": "array", "items": SUBSCRIPTION},
    next={"type": ["string", "null"]},
)
CREATED = _object("count cursor", count=WHOLE, cursor=TEXT)
RESULT = _object("cursor rows", cursor=TEXT, rows={"type": "array", "items": {"type": "object"}})
EXPLANATION = _object("text", text=TEXT)
CHECKED = _object("kind parameters", kind=TEXT, parameters={"type": "array", "items": TEXT})
TRIED = listed("tried", _object("id matches said", id=TEXT, matches=TRUTH, said=TEXT))
TENANT = _object("name grants", name=TEXT, grants={"type": "object"})
KEY = _object("id tenant scopes", id=TEXT, tenant=TEXT, scopes={"type": "array", "items": TEXT}, key=TEXT)
SPACES = _object(
    "fed spaces",
    fed=TRUTH,
    spaces={
        "type": "array",
        "items": _object("space source", space=TEXT, source=TEXT, sql={"type": ["string", "null"]}),
    },
)
SPACE = _object(
    "column ranges tiles number",
    column=TEXT,
    ranges={"type": "array"},
    tiles={"type": "array", "items": {"type": "object"}},
    number=WHOLE,
)
