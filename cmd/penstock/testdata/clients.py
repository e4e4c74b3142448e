"""Asks a gateway with the clients that people use, and prints what they have made of the answers: a JSON list of objects with
client, api, stream, asked (the model), model (of the answer) and text. Arguments: the gateway's URL, and models to ask for."""

import json
import sys

import anthropic
import openai

url, models = sys.argv[1], sys.argv[2:]
question = [{"role": "user", "content": "repeat <this> é"}]
ai = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=30)
claude = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=30)
out = []


def note(client, api, stream, asked, model, text):
    out.append({"client": client, "api": api, "stream": stream, "asked": asked, "model": model, "text": text})


for asked in models:
    got = ai.chat.completions.create(model=asked, messages=question, max_tokens=16)
    note("openai", "chat", False, asked, got.model, got.choices[0].message.content)
    chunks = list(ai.chat.completions.create(model=asked, messages=question, max_tokens=16, stream=True))
    note("openai", "chat", True, asked, chunks[0].model, "".join(c.choices[0].delta.content or "" for c in chunks if c.choices))

    got = ai.completions.create(model=asked, prompt="repeat <this> é", max_tokens=16)
    note("openai", "completions", False, asked, got.model, got.choices[0].text)
    chunks = list(ai.completions.create(model=asked, prompt="repeat <this> é", max_tokens=16, stream=True))
    note("openai", "completions", True, asked, chunks[0].model, "".join(c.choices[0].text for c in chunks if c.choices))

    got = ai.responses.create(model=asked, input="repeat <this> é", max_output_tokens=16)
    note("openai", "responses", False, asked, got.model, got.output_text)
    model, text = "", ""
    for event in ai.responses.create(model=asked, input="repeat <this> é", max_output_tokens=16, stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.completed":
            model = event.response.model
    note("openai", "responses", True, asked, model, text)

    got = claude.messages.create(model=asked, messages=question, max_tokens=16)
    note("anthropic", "messages", False, asked, got.model, got.content[0].text)
    with claude.messages.stream(model=asked, messages=question, max_tokens=16) as stream:
        text = "".join(stream.text_stream)
        note("anthropic", "messages", True, asked, stream.get_final_message().model, text)

# The names that clients may ask for, and what they get for another one.
note("openai", "models", False, "", "", " ".join(sorted(m.id for m in ai.models.list())))
for client, ask in (
    ("openai", lambda: ai.chat.completions.create(model="unknown", messages=question)),
    ("anthropic", lambda: claude.messages.create(model="unknown", messages=question, max_tokens=16)),
):
    try:
        ask()
    except (openai.NotFoundError, anthropic.NotFoundError) as e:
        note(client, "error", False, "unknown", "", str(e))
print(json.dumps(out))
