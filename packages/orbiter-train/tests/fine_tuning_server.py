"""A local server that speaks the wire format of OpenAI's files and fine-tuning, and minds it.

A job moves on by one state each time it is asked for. What the real API would refuse is refused
here: a file that is no JSON lines of chats, an unknown file, a method that does not fit.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

STATES = ["validating_files", "queued", "running", "succeeded"]


class FineTuningServer:
    """Keeps files and jobs; `fails` names the reason with which jobs fail."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.requests: list[dict[str, Any]] = []
        self.fails = ""
        self.refusals: list[int] = []
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FineTuningServer"]:
        """Listen on a free port."""
        app = web.Application()
        app.router.add_post("/v1/files", self._upload)
        app.router.add_post("/v1/fine_tuning/jobs", self._create)
        app.router.add_get("/v1/fine_tuning/jobs/{id}", self._retrieve)
        app.router.add_post("/v1/fine_tuning/jobs/{id}/cancel", self._cancel)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _upload(self, request: web.Request) -> web.Response:
        if self.refusals:
            return _error(self.refusals.pop(0), "try again")
        form = await request.post()
        if form["purpose"] != "fine-tune":
            return _error(400, "purpose must be fine-tune")
        text = form["file"].file.read().decode()
        for number, line in enumerate(text.splitlines(), 1):
            problem = _problem(json.loads(line))
            if problem:
                return _error(400, f"line {number}: {problem}")
        name = f"file-{len(self.files)}"
        self.files[name] = text
        described = {"id": name, "object": "file", "bytes": len(text), "created_at": 0,
                     "filename": form["file"].filename, "purpose": "fine-tune",
                     "status": "processed"}  # fmt: skip
        return web.json_response(described)

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        text = self.files.get(body["training_file"])
        if text is None:
            return _error(400, f"no such file: {body['training_file']}")
        preference = "preferred_output" in json.loads(text.splitlines()[0])
        if (body["method"]["type"] == "dpo") != preference:
            return _error(400, "the method does not fit the file")
        name = f"ftjob-{len(self.jobs)}"
        self.jobs[name] = {
            "id": name, "object": "fine_tuning.job", "created_at": 0, "model": body["model"],
            "hyperparameters": {}, "organization_id": "org", "result_files": [],
            "seed": body.get("seed", 0), "status": STATES[0], "method": body["method"],
            "training_file": body["training_file"], "suffix": body.get("suffix"),
        }  # fmt: skip
        return self._told(name)

    async def _retrieve(self, request: web.Request) -> web.Response:
        job = self.jobs.get(request.match_info["id"])
        if job is None:
            return _error(404, "no such job")
        if job["status"] in STATES[:-1]:
            job["status"] = STATES[STATES.index(job["status"]) + 1]
        if job["status"] == "running" and self.fails:
            job["status"] = "failed"
            job["error"] = {"code": "invalid", "message": self.fails, "param": None}
        if job["status"] == "succeeded":
            job["fine_tuned_model"] = f"ft:{job['model']}:org:{job['suffix'] or ''}:abc"
            job["trained_tokens"] = 1234
        return self._told(job["id"])

    async def _cancel(self, request: web.Request) -> web.Response:
        self.jobs[request.match_info["id"]]["status"] = "cancelled"
        return self._told(request.match_info["id"])

    def _told(self, name: str) -> web.Response:
        return web.json_response(self.jobs[name])


def _problem(example: dict[str, Any]) -> str:
    """Say what the real API would not take."""
    if "input" in example:
        sides = [example["preferred_output"], example["non_preferred_output"]]
        if any(len(s) != 1 or s[0]["role"] != "assistant" for s in sides):
            return "outputs are one assistant message each"
        return "" if example["input"]["messages"] else "no messages"
    if set(example) - {"messages", "tools", "parallel_tool_calls"}:
        return f"unexpected keys {sorted(example)}"
    if example["messages"][-1]["role"] != "assistant":
        return "last message must be from the assistant"
    names = {tool["function"]["name"] for tool in example.get("tools", [])}
    waiting: list[str] = []
    for message in example["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return "tool message without a call"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return "tool calls without results"
        for call in message.get("tool_calls", []):
            if not isinstance(call["function"]["arguments"], str):
                return "arguments must be a string"
            if call["function"]["name"] not in names:
                return "unknown tool"
            waiting.append(call["id"])
        if message["role"] != "assistant" and "weight" in message:
            return "weight is for assistant messages"
    return ""


def _error(status: int, message: str) -> web.Response:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": None}}
    return web.json_response(body, status=status)
