"""Prints the JSON Schema of the arguments of vllm serve. Run it with vLLM's Python:

  $ENGINES_DIR/vllm/bin/python conformance/tools/engines/vllm_schema.py > discovery/engine/catalog/schemas/vllm.json

Names and choices come from vLLM's own parser. The type of a value is the one that
the parser's conversion accepts: it converts several values. Bounds come from the fields of vLLM's configuration."""
import contextlib
import importlib.metadata
import inspect
import json
import logging
import math
import os

logging.disable(logging.CRITICAL)
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import annotated_types  # noqa: E402
import vllm.config  # noqa: E402
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

# They end the program at once, the template of the Engine sets them, or the server would listen elsewhere.
LEFT_OUT = {"help", "host", "port", "model", "served-model-name", "shutdown-timeout", "runner", "convert",
            "grpc", "grpc-port", "headless", "uds"}


def taken(convert, text):
    """Whether a conversion takes a text."""
    with contextlib.suppress(Exception):
        convert(text)
        return True
    return False


def schema(action):
    if action.nargs == 0:
        return {"type": "boolean"}
    if action.choices:
        return {"enum": [c for c in action.choices if c is not None]}
    if action.nargs == "?" and action.const is True:
        return {"type": ["boolean", "string"]}
    convert = action.type or str
    if taken(convert, "no-such-value"):
        return {"type": ["object", "string"]} if not taken(convert, "{no JSON}") else {"type": "string"}
    if taken(convert, "{}"):
        return {"type": ["array", "object", "string"]} if taken(convert, "[]") else {"type": ["object", "string"]}
    if taken(convert, "1k"):
        words = "auto|" if taken(convert, "auto") else ""
        return {"type": ["integer", "string"], "pattern": f"^({words}[0-9.]+[kKmMgGtT]?)$"}
    if taken(convert, "0.5"):
        return {"type": "number"}
    return {"type": "integer"} if taken(convert, "1") else {"type": "string"}


def bounds():
    """The bounds of each field of a configuration, by the name of its argument; None if two fields differ."""
    keywords = {annotated_types.Ge: ("minimum", "ge"), annotated_types.Gt: ("exclusiveMinimum", "gt"),
                annotated_types.Le: ("maximum", "le"), annotated_types.Lt: ("exclusiveMaximum", "lt")}
    found = {}
    for _, cls in inspect.getmembers(vllm.config, inspect.isclass):
        for name, field in getattr(cls, "__pydantic_fields__", {}).items():
            limits = {}
            for m in field.metadata:
                for kind, (keyword, attribute) in keywords.items():
                    if isinstance(m, kind) and math.isfinite(getattr(m, attribute)):
                        limits[keyword] = getattr(m, attribute)
            name = name.replace("_", "-")
            found[name] = limits if found.get(name, limits) == limits else None
    return found


limits, properties = bounds(), {}
for action in make_arg_parser(FlexibleArgumentParser())._actions:
    names = [o[2:] for o in action.option_strings if o.startswith("--")]
    if LEFT_OUT & set(names):
        continue
    value = schema(action)
    if value.get("type") in ("integer", "number"):
        value |= limits.get(action.dest.replace("_", "-")) or {}
    properties |= {name: value for name in names}
version = importlib.metadata.version("vllm")
print("{\n  \"$comment\": " + json.dumps(f"Code generated from the parser of vLLM {version} by conformance/tools/engines/vllm_schema.py; DO NOT EDIT.") + ",")
print("  \"type\": \"object\", \"properties\": {\n    " + ",\n    ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(properties.items())) + "\n  }\n}")
