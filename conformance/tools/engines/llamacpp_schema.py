"""Prints the JSON Schema of the arguments of llama.cpp's server. Run it with llama.cpp's Python:

  $ENGINES_DIR/llamacpp/bin/python conformance/tools/engines/llamacpp_schema.py > discovery/engine/catalog/schemas/llama-cpp.json

Names come from the --help of the wheel's own parser. The type of a value is what that parser takes:
each argument is parsed with several values, and the results are compared."""
import importlib.metadata
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "discovery/engine/install"))
import llama_server  # noqa: E402
from xllamacpp import xllamacpp  # noqa: E402

# They end the program at once, or the template of the Engine sets them.
LEFT_OUT = {"help", "version", "cache-list", "completion-bash", "list-devices", "host", "port", "model", "alias", "metrics", "embeddings", "reranking"}


def usage():
    out = subprocess.run([sys.executable, "-B", llama_server.__file__, "--help"], capture_output=True, text=True, check=True).stdout
    entries, last = [], None
    for line in out.splitlines():
        if line.startswith("-") and not line.startswith("---"):
            names, _, text = re.sub(r",\s+(?=-)", ", ", line).partition("  ")
            last = {"names": re.findall(r"(?<![^\s,])--([a-z0-9][a-z0-9.-]*)", names), "text": text.strip()}
            last["hint"] = re.sub(r"^(-\S+, )*-\S+ ?", "", names).strip()
            entries.append(last)
        elif last and line.startswith(" "):
            last["text"] += " " + line.strip()
    return entries


def parsed(name, value, memory=False):
    """Whether the parser takes a value; with memory the bytes that it leaves. A child tries it, because some arguments end the program."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1), os.dup2(null, 2)
        params = xllamacpp.CommonParams()
        ok = llama_server.into(params, EXAMPLE, ["--" + name, value])
        data = llama_server.ctypes.string_at(id(params) + object.__basicsize__, type(params).__basicsize__ - object.__basicsize__)
        os.write(w, (b"1" if ok else b"0") + data)
        os._exit(0)
    os.close(w)
    data = b""
    while piece := os.read(r, 1 << 16):
        data += piece
    os.close(r)
    os.waitpid(pid, 0)
    for created in os.listdir():  # some arguments create their file or folder
        os.rmdir(created) if os.path.isdir(created) else os.remove(created)
    return data[1:] if memory else data[:1] == b"1"


def schema(name, hint, text):
    if not hint:
        return {"type": "boolean"}
    choices = re.fullmatch(r"[{\[<](\S+)[}\]>]", hint)
    words = re.split(r"[,|]", choices[1]) if choices else []
    if listed := re.search(r"allowed values: ((?:\S+, )*\S+)", text):
        words += listed[1].split(", ")
    words += re.findall(r"default: ([a-z]+)", text) + re.findall(r"'([a-z]+)'", text) + re.findall(r"(?<= - )([a-z0-9+-]+)(?=:| \()", text)
    if parsed(name, "no-such-value"):
        return {"type": "string"}
    words = [w for w in dict.fromkeys(words) if not re.fullmatch(r"[0-9.]+", w) and parsed(name, w)]
    if parsed(name, '{"a": 1}') and not parsed(name, '{"a": 1'):
        return {"type": ["object", "string"]}
    if not parsed(name, "1") or not parsed(name, "1g"):  # C++ reads the number at the beginning of a text
        return {"enum": words} if len(words) > 1 else {"type": "string"}
    if "," in hint:
        return {"type": ["number", "string"]}
    # A fraction, or its inverse, is in the parameters as a float or a double, or the parser has dropped it.
    one, more = parsed(name, "1.0", True), parsed(name, "1.5", True)
    fraction = any(struct.pack(f, 1.0) == one[i:i + n] and more[i:i + n] in (struct.pack(f, 1.5), struct.pack(f, 1 / 1.5))
                   for f, n in (("f", 4), ("d", 8)) for i in range(0, len(one), 4))
    kind = {"type": "number" if fraction else "integer"}
    return {"anyOf": [kind, {"enum": words}]} if words else kind


EXAMPLE = llama_server.server()
entries, properties = usage(), {}
os.chdir(tempfile.mkdtemp())
for entry in entries:
    if " " in entry["hint"] and not re.search(r"[<\[]", entry["hint"]) or LEFT_OUT & set(entry["names"]) or "has been removed" in entry["text"]:
        continue  # an argument with two values has no form as a variable
    for name in entry["names"]:
        properties[name] = schema(name, entry["hint"], entry["text"])
os.rmdir(os.getcwd())
version = importlib.metadata.version("xllamacpp")
print("{\n  \"$comment\": " + json.dumps(f"Code generated from the parser of xllamacpp {version} by conformance/tools/engines/llamacpp_schema.py; DO NOT EDIT.") + ",")
print("  \"type\": \"object\", \"properties\": {\n    " + ",\n    ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(properties.items())) + "\n  }\n}")
