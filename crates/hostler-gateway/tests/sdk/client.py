"""PyPI's `anthropic` as a client of the gateway. Runs the jobs of its last argument one after the other and prints
the results as one line of JSON, which the test checks. `client.mjs` does the same."""

import asyncio
import json
import sys

import anthropic


def parameters(job):
    message = {"role": "user", "content": job["prompt"] * job.get("times", 1)}
    usual = {"model": job.get("model", "claude-sonnet-4-5"), "max_tokens": 2000, "messages": [message]}
    return usual | job.get("parameters", {})


def client(job, kind=anthropic.Anthropic):
    return kind(max_retries=job["max_retries"]) if "max_retries" in job else kind()


def described(error):
    body = getattr(error, "body", None)
    inner = body.get("error", {}) if isinstance(body, dict) else {}
    return {
        "class": type(error).__name__,
        "is_api_error": isinstance(error, anthropic.APIError),
        "status": getattr(error, "status_code", None),
        "type": inner.get("type"),
        "message": inner.get("message", str(error)),
        "request_id": getattr(error, "request_id", None),
    }


def attempt(facts, work):
    try:
        work(facts)
    except Exception as error:
        facts["error"] = described(error)
    return facts


def whole(job):
    def work(facts):
        facts["message"] = client(job).messages.create(**parameters(job)).to_dict()

    return attempt({"message": None, "error": None}, work)


def stream(job, messages=None):
    """Streams with the helper that assembles the message."""

    def work(facts):
        with client(job).messages.stream(**parameters(job) | (messages or {})) as running:
            for text in running.text_stream:
                facts["text"] += text
            facts["message"] = running.get_final_message().to_dict()

    return attempt({"text": "", "message": None, "error": None}, work)


def raw(job):
    def work(facts):
        for event in client(job).messages.create(**parameters(job), stream=True):
            facts["events"].append(event.to_dict())

    return attempt({"events": [], "error": None}, work)


def tools(job):
    """Answers tool calls until a message has none."""
    messages = parameters(job)["messages"]
    rounds = []
    while True:
        seen = stream(job, {"messages": messages})
        if seen["error"]:
            return {"rounds": rounds, "error": seen["error"]}
        message = seen["message"]
        rounds.append(message)
        if message["stop_reason"] != "tool_use":
            return {"rounds": rounds, "error": None}
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": f"{call['input']['name']} is well"}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": message["content"]}, {"role": "user", "content": results}]


def count(job):
    def work(facts):
        asked = parameters(job)
        counted = client(job).messages.count_tokens(model=asked["model"], messages=asked["messages"])
        facts["count"] = counted.to_dict()

    return attempt({"count": None, "error": None}, work)


def models(_job):
    def work(facts):
        facts["models"] = [model.to_dict(mode="json") for model in client({}).models.list()]

    return attempt({"models": [], "error": None}, work)


def model(job):
    def work(facts):
        facts["model"] = client(job).models.retrieve(job["model"]).to_dict(mode="json")

    return attempt({"model": None, "error": None}, work)


def crowd(job):
    async def one(shared, prompt):
        facts = {"text": "", "message": None, "error": None}
        try:
            async with shared.messages.stream(**parameters({"prompt": prompt})) as running:
                async for text in running.text_stream:
                    facts["text"] += text
                facts["message"] = (await running.get_final_message()).to_dict()
        except Exception as error:
            facts["error"] = described(error)
        return facts

    async def all_of_them():
        async with client(job, anthropic.AsyncAnthropic) as shared:
            return await asyncio.gather(*(one(shared, prompt) for prompt in job["prompts"]))

    return asyncio.run(all_of_them())


def abort(job):
    """Aborts after the first text, but runs on until stdin is closed."""

    def work(facts):
        with client(job).messages.stream(**parameters(job)) as running:
            for text in running.text_stream:
                facts["text"] += text
                running.close()
                break

    return attempt({"text": "", "error": None}, work)


facts = [globals()[job["do"]](job) for job in json.loads(sys.argv[1])]
print(json.dumps(facts), flush=True)
sys.stdin.read()
