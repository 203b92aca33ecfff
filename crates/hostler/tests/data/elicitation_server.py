"""MCP server on stdio with one tool, which asks the user a question and returns the answer to the model."""

import json
import sys

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Whose horse is it?"},
        "stalls": {"type": "integer", "description": "How many stalls?"},
        "hay": {"type": "boolean", "description": "With hay?"},
        "side": {"type": "string", "enum": ["left", "right"], "enumNames": ["Left side", "Right side"]},
    },
    "required": ["name"],
}
TOOL = {"name": "book", "description": "Books a stall.", "inputSchema": {"type": "object", "properties": {}}}


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def listen():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def elicit():
    """Asks, and returns the client's answer; an error counts as an answer."""
    send({"id": "asked", "method": "elicitation/create",
          "params": {"message": "Before the stall is booked", "requestedSchema": SCHEMA}})
    while True:
        message = listen()
        if message.get("id") == "asked":
            return message.get("result", message.get("error"))
        answer(message)


def answer(message):
    if "id" not in message or "method" not in message:
        return
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "stable", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        text = "The user said: " + json.dumps(elicit(), sort_keys=True)
        result = {"content": [{"type": "text", "text": text}]}
    elif method == "ping":
        result = {}
    else:
        return send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    send({"id": message["id"], "result": result})


while True:
    answer(listen())
