"""The part of SARIF 2.1.0 that hangscope writes, as a JSON schema: required properties, value sets, nothing unknown."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def _object(required: list[str], **properties: object) -> Schema:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _many(name: str) -> Schema:
    return {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}


_TEXT: Schema = {"type": "string", "minLength": 1}
_LEVEL: Schema = {"enum": ["none", "note", "warning", "error"]}
_BAG: Schema = {
    "type": "object",
    "properties": {"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}},
}

SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object(["version", "runs"], **{"$schema": {"type": "string", "format": "uri"}}, version={"const": "2.1.0"}),
    "$defs": {
        # 3.14
        "run": _object(
            ["tool"],
            tool=_object(["driver"], driver={"$ref": "#/$defs/component"}),
            invocations=_many("invocation"),
            results=_many("result"),
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        ),
        # 3.19
        "component": _object(["name"], name=_TEXT, version=_TEXT, rules=_many("rule") | {"uniqueItems": True}),
        # 3.49
        "rule": _object(
            ["id"],
            id=_TEXT,
            name=_TEXT,
            shortDescription={"$ref": "#/$defs/message"},
            fullDescription={"$ref": "#/$defs/message"},
            help={"$ref": "#/$defs/message"},
            properties=_BAG,
        ),
        # 3.20
        "invocation": _object(
            ["executionSuccessful"],
            executionSuccessful={"type": "boolean"},
            toolExecutionNotifications=_many("notification"),
        ),
        # 3.58
        "notification": _object(
            ["message"],
            message={"$ref": "#/$defs/message"},
            level=_LEVEL,
            locations=_many("location") | {"uniqueItems": True},
        ),
        # 3.11, 3.12: text, and no identifier
        "message": _object(["text"], text=_TEXT),
        # 3.27; a kind other than fail has no level (3.27.10)
        "result": _object(
            ["message"],
            ruleId=_TEXT,
            ruleIndex={"type": "integer", "minimum": -1},
            kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
            level=_LEVEL,
            message={"$ref": "#/$defs/message"},
            locations=_many("location"),
            relatedLocations=_many("location") | {"uniqueItems": True},
            rank={"type": "number", "minimum": 0, "maximum": 100},
            partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
            properties=_BAG,
        )
        | {
            "if": {"properties": {"kind": {"const": "fail"}}},
            "then": {"properties": {"level": {"enum": ["note", "warning", "error"]}}},
            "else": {"properties": {"level": {"const": "none"}}},
        },
        # 3.28
        "location": _object(
            [],
            id={"type": "integer", "minimum": 0},
            physicalLocation={"$ref": "#/$defs/physical"},
            logicalLocations=_many("logical") | {"uniqueItems": True},
            message={"$ref": "#/$defs/message"},
        ),
        # 3.29
        "physical": _object(
            ["artifactLocation"],
            artifactLocation=_object(
                ["uri"], uri={"type": "string", "minLength": 1, "pattern": "^[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+$"}
            ),
            region=_object(
                ["startLine"],
                startLine={"type": "integer", "minimum": 1},
                snippet=_object(["text"], text={"type": "string"}),
            ),
        ),
        # 3.33
        "logical": _object(["name"], name=_TEXT, fullyQualifiedName=_TEXT, kind=_TEXT),
    },
}
SCHEMA["properties"]["runs"] = _many("run")
