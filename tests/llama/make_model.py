#!/usr/bin/env python3
"""Writes a model of random weights that llama.cpp loads: make_model.py FILE.gguf

Nothing is downloaded and nothing but Python is needed. Its words mean nothing, but the server around it is the real one:
streams, tools, /tokenize, /apply-template, /props, the error for a conversation that is too long. Where tools are offered,
it calls one; where the last message is a tool's result, it answers in words, so a loop of calls ends.

The format is GGUF 3 (ggml's docs/gguf.md): a header, keys with typed values, descriptions of tensors, then their numbers,
each at a multiple of 32 bytes.
"""

import array
import random
import struct
import sys

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 65536
# Places of the width that no layer writes to: "a call is wanted", "always 1", "a call begins".
WANTED, ONE, BEGINS = 0, 1, 2
NORMAL, CONTROL, DEFINED, UNUSED = 1, 3, 4, 5

# ChatML with tools told in the way that llama.cpp knows; the last mark says whether a call is wanted.
TEMPLATE = """\
{%- if tools %}{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- '# Tools\\n\\nThe functions are within <tools></tools>:\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{{- '\\n</tools>\\n\\nA call is written so:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- elif message.role != 'system' %}{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content %}{{- message.content }}{%- endif %}
{%- if message.tool_calls %}{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if tools and messages[-1].role != 'tool' %}{{- '<|act|>' }}{%- else %}{{- '<|say|>' }}{%- endif %}{%- endif %}"""

WORDS = """a all and are as at be by can command directory echo error exit file files find for from git have help home if in
install is it list log name not of on or path print run rust shell show status test that the this to true type with you"""


def vocabulary():
    """Tokens, their types and the merges: all bytes as GPT-2 writes them, some words, the marks."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letter = {byte: chr(byte if byte in shown else 256 + hidden.index(byte)) for byte in range(256)}
    tokens, merges = [letter[byte] for byte in range(256)], []
    for word in WORDS.split():
        for text in (word, " " + word):
            so_far, *rest = [letter[byte] for byte in text.encode()]
            for next_letter in rest:
                if so_far + next_letter not in tokens:
                    tokens.append(so_far + next_letter)
                    merges.append(f"{so_far} {next_letter}")
                so_far += next_letter
    types = [NORMAL] * len(tokens)
    for mark in ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|act|>", "<|say|>", "<tool_call>", "</tool_call>"):
        tokens.append(mark)
        types.append(CONTROL if "|" in mark else DEFINED)
    while len(tokens) % 32:
        tokens.append(f"<|unused{len(tokens)}|>")
        types.append(UNUSED)
    return tokens, types, merges, letter


def matrix(rows, columns, scale):
    return [[RANDOM.gauss(0, scale) for _ in range(columns)] for _ in range(rows)]


def weights(tokens, types, letter):
    """The tensors by name, each a list of rows."""
    place = {token: index for index, token in enumerate(tokens)}
    embedding = matrix(len(tokens), WIDTH, 1)
    for row in embedding:
        row[WANTED], row[ONE], row[BEGINS] = 0, 1, 0
    embedding[place["<|act|>"]][WANTED] = 8
    embedding[place["<tool_call>"]][BEGINS] = 8
    out = matrix(len(tokens), WIDTH, 0.2)
    for token, kind, row in zip(tokens, types, out):
        row[WANTED] = row[BEGINS] = 0
        # Parts of words are likely, single bytes and what is unused are not.
        row[ONE] = 2 if kind == NORMAL and len(token) > 1 else -8
    # A string ends soon, an answer after some words.
    out[place['"']][ONE], out[place["<|im_end|>"]][ONE] = 5, 3
    out[place["<tool_call>"]][WANTED] = 40
    out[place[letter[10]]][BEGINS] = 40
    tensors = {"token_embd.weight": embedding}
    for layer in range(LAYERS):
        of = f"blk.{layer}."
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"{of}{name}.weight"] = [[1.0] * WIDTH]
        for name, rows, columns in (
            ("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH, WIDTH), ("attn_v", WIDTH, WIDTH), ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", INNER, WIDTH), ("ffn_up", INNER, WIDTH), ("ffn_down", WIDTH, INNER),
        ):
            tensors[f"{of}{name}.weight"] = matrix(rows, columns, 0.05)
        for name in ("attn_output", "ffn_down"):
            for row in (WANTED, ONE, BEGINS):
                tensors[f"{of}{name}.weight"][row] = [0.0] * len(tensors[f"{of}{name}.weight"][row])
    tensors["output_norm.weight"] = [[1.0] * WIDTH]
    tensors["output.weight"] = out
    return tensors


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(of):
    """A typed value: its type's number, then itself."""
    if isinstance(of, bool):
        return struct.pack("<I?", 7, of)
    if isinstance(of, int):
        return struct.pack("<II", 4, of)
    if isinstance(of, float):
        return struct.pack("<If", 6, of)
    if isinstance(of, str):
        return struct.pack("<I", 8) + text(of)
    if isinstance(of[0], int):
        return struct.pack("<IIQ", 9, 5, len(of)) + struct.pack(f"<{len(of)}i", *of)
    return struct.pack("<IIQ", 9, 8, len(of)) + b"".join(map(text, of))


def main():
    tokens, types, merges, letter = vocabulary()
    keys = {
        "general.architecture": "llama", "general.name": "tiny-random", "general.file_type": 0,
        "llama.context_length": CONTEXT, "llama.embedding_length": WIDTH, "llama.block_count": LAYERS,
        "llama.feed_forward_length": INNER, "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": HEADS,
        "llama.rope.dimension_count": WIDTH // HEADS, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": len(tokens), "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"), "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.eot_token_id": tokens.index("<|im_end|>"), "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    tensors = weights(tokens, types, letter)
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(keys))]
    head += [text(key) + value(of) for key, of in keys.items()]
    offset, body = 0, []
    for name, rows in tensors.items():
        # The fastest dimension comes first; a vector has one.
        sizes = [len(rows[0])] if len(rows) == 1 else [len(rows[0]), len(rows)]
        head.append(text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, offset))
        numbers = array.array("f", (number for row in rows for number in row))
        if sys.byteorder == "big":
            numbers.byteswap()
        raw = numbers.tobytes()
        body.append(raw + bytes(-len(raw) % 32))
        offset += len(body[-1])
    head = b"".join(head)
    with open(sys.argv[1], "wb") as file:
        file.write(head + bytes(-len(head) % 32) + b"".join(body))


if len(sys.argv) != 2:
    sys.exit(__doc__)
RANDOM = random.Random(1)
main()
