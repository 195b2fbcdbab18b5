"""``/docs``: the routes and messages of ``/openapi.json`` as one page of plain HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;width:100%}"
    "td,th{border:1px solid #bbb;padding:.3em .6em;text-align:left;vertical-align:top}"
    "code{background:#eee;padding:0 .2em}"
)


def docs_page(described: Mapping[str, Any]) -> str:
    about = described["info"]
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(about['title'])}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(about['title'])} {escape(about['version'])}</h1>",
    ]
    for paragraph in about["description"].split("\n\n"):
        lines.append(f"<p>{escape(paragraph)}</p>")
    lines.extend(_routes(described["paths"]))
    lines.append("<h2>Messages and answers</h2>")
    for name, schema in described["components"]["schemas"].items():
        lines.extend(_model(name, schema))
    lines.append('<p>For programs: <a href="/openapi.json">openapi.json</a>.</p></body></html>')
    return "\n".join(lines)


def _routes(paths: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Routes</h2><table><tr><th>route<th>what it does<th>message<th>answer</tr>"
    yield "<tr><td><code>WS /v1/session</code><td>All messages on one socket.<td><td></tr>"
    for path, methods in paths.items():
        for method, route in methods.items():
            asked = _link(route.get("requestBody"))
            answered = _link(route["responses"].get("200"))
            yield f"<tr><td><code>{method.upper()} {escape(path)}</code>"
            yield f"<td>{escape(route['summary'])}<td>{asked}<td>{answered}</tr>"
    yield "</table>"


def _link(body: Mapping[str, Any] | None) -> str:
    content = (body or {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    if not name:
        return ""
    return f'<a href="#{escape(name)}">{escape(name)}</a>'


def _model(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{escape(schema.get("description", ""))}</p>'
    yield "<table><tr><th>key<th>type<th>meaning</tr>"
    needed = schema.get("required", ())
    for key, field in schema.get("properties", {}).items():
        mark = "" if key in needed else " (may be left out)"
        yield f"<tr><td><code>{escape(key)}</code><td>{escape(_type(field))}"
        yield f"<td>{escape(field.get('description', ''))}{mark}</tr>"
    yield "</table>"


def _type(field: Mapping[str, Any]) -> str:
    """The type of a key in words: ``map of Report``, ``text or null``."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"])
    if "const" in field or "enum" in field:
        return ", ".join(repr(one) for one in field.get("enum", [field.get("const")]))
    return _plain_type(field)


def _plain_type(field: Mapping[str, Any]) -> str:
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    inside = field.get("additionalProperties")
    if isinstance(inside, dict):
        return f"map of {_type(inside)}"
    return kind
