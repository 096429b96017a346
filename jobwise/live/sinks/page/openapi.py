"""The description of the page's JSON API, as OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from jobwise import __version__
from jobwise.live.sinks.page.state import Held, Job, State

REF = "#/components/schemas/{model}"
Fields = dict[str, Any]
STOP_ERRORS = {401: "the token is missing or wrong", 403: "from another site, or read-only", 409: "nothing is steered"}


def document() -> Fields:
    """Return the document that describes the API."""
    _, schemas = models_json_schema([(m, "serialization") for m in (State, Job, Held)], ref_template=REF)
    job, held = ({"$ref": REF.format(model=m)} for m in ("Job", "Held"))
    more = {
        "starts_next": _list(job),
        "viewer": {"type": ["string", "null"], "description": "whose jobs alone are shown; null: all are"},
        "stoppable": {"type": "boolean"},
    }
    now = {"allOf": [{"$ref": REF.format(model="State")}, _object(more)], "description": "without jobs and cannot_start"}
    jobs = {"cluster": _of("string"), "cycle": _of("integer"), "time": _of("number"), "answers": _of("boolean")}
    record = {"type": ["object", "null"], "description": "of predictions of the last day that came true or not; null: too few"}
    jobs |= {"count": _of("integer"), "record": record}
    offer = {"change": _of("string")} | {k: _of("number") for k in ("start", "end", "start_now", "end_now", "probability")}
    number = _parameter("job", "path", "integer", required=True)
    limit = _parameter("limit", "query", "integer")
    paths = {
        "/api/now": _get("The cluster now, and what the policy would start next", now),
        "/api/jobs": _get(
            "Jobs that wait, the first to start first",
            _object(jobs | {"jobs": _list(job), "cannot_start": _list(held)}),
            [_parameter("user", "query", "string"), _parameter("job", "query", "integer"), limit],
        ),
        "/api/jobs/{job}/sooner": _get(
            "What would start a job sooner", _object({"job": _of("integer"), "sooner": _list(_object(offer))}), [number], 404
        ),
        "/api/audit": _get("The last lines of the audit log", _object({"lines": _list(_of("object"))}), [limit]),
        "/api/events": {
            "get": {"summary": "An event a cycle", "responses": {"200": _answer("text/event-stream", _of("string"))}}
        },
        "/metrics": {"get": {"summary": "Metrics for Prometheus", "responses": {"200": _answer("text/plain", _of("string"))}}},
        "/api/stop": {
            "post": {
                "summary": "End the steering; all site factors go back",
                "security": [{"token": []}],
                "responses": {"200": _answer("application/json", _object({"stopping": _of("boolean")}))}
                | {str(code): {"description": text} for code, text in STOP_ERRORS.items()},
            }
        },
    }
    components = schemas.get("$defs", {})
    return {
        "openapi": "3.1.0",
        "info": {"title": "jobwise", "version": __version__, "description": "Times are in s from the cycle where not said."},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _of(kind: str) -> Fields:
    return {"type": kind}


def _list(items: Fields) -> Fields:
    return {"type": "array", "items": items}


def _object(fields: Fields) -> Fields:
    return {"type": "object", "properties": fields, "required": list(fields)}


def _parameter(name: str, place: str, kind: str, required: bool = False) -> Fields:
    return {"name": name, "in": place, "required": required, "schema": {"type": kind}}


def _answer(media: str, schema: Fields) -> Fields:
    return {"description": "as asked", "content": {media: {"schema": schema}}}


def _get(summary: str, schema: Fields, parameters: list[Fields] | None = None, *errors: int) -> Fields:
    """A path that is read. 503: no cycle is over yet."""
    answers = {"200": _answer("application/json", schema)} | {str(e): {"description": "not there"} for e in errors}
    answers["503"] = {"description": "no cycle is over yet, or too many ask"}
    return {"get": {"summary": summary, "parameters": parameters or [], "responses": answers}}
