"""The bytes of the three APIs, as an SDK would see them."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from support.agent_clis import ModelServer
from support.eventually import eventually

CLI = {"user-agent": "claude-cli/2.1 (external, sdk-cli)"}


def connect(server: ModelServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)


def post(
    server: ModelServer, path: str, body: object, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    connection = connect(server)
    connection.request("POST", path, json.dumps(body), headers or {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def ask(prompt: str, **more: object) -> dict[str, object]:
    return {"model": "m", "max_tokens": 9, "messages": [user(prompt)], **more}


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def events(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_a_message_is_answered_whole(model_server: ModelServer) -> None:
    status, text = post(model_server, "/v1/messages?beta=true", ask("[[say: hello]]"))
    answer = json.loads(text)
    assert (status, answer["type"], answer["stop_reason"]) == (200, "message", "end_turn")
    assert answer["content"] == [{"type": "text", "text": "hello"}]
    assert answer["usage"]["input_tokens"] > 0
    assert answer["usage"]["output_tokens"] > 0


def test_a_streamed_message_has_the_events_of_the_api(model_server: ModelServer) -> None:
    tools = [{"name": "Bash", "input_schema": {}}]
    body = ask("[[say: a]] [[bash: ls]]", stream=True, tools=tools)
    received = events(post(model_server, "/v1/messages", body)[1])
    assert [event["type"] for event in received] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert json.loads(received[5]["delta"]["partial_json"])["command"] == "ls"
    assert received[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_text_in_chunks_is_one_block(model_server: ModelServer) -> None:
    body = ask("[[stream: 3 chunks]] [[say: abc]]", stream=True)
    received = events(post(model_server, "/v1/messages", body)[1])
    deltas = [event["delta"] for event in received if event["type"] == "content_block_delta"]
    assert [delta["text"] for delta in deltas] == ["a", "b", "c"]
    assert {event.get("index", 0) for event in received} == {0}


def test_a_tool_result_continues_the_script(model_server: ModelServer) -> None:
    messages = [
        user("[[bash: date]] [[say: it is {output}]]"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash"}]},
        user([{"type": "tool_result", "tool_use_id": "t", "content": "Sunday"}]),
    ]
    answer = json.loads(post(model_server, "/v1/messages", ask("") | {"messages": messages})[1])
    assert answer["content"][0]["text"] == "it is Sunday"


def test_what_the_cli_adds_to_a_prompt_is_not_a_prompt(model_server: ModelServer) -> None:
    reminder = {"type": "text", "text": "<system-reminder>[[say: wrong]]</system-reminder>"}
    content = [reminder, {"type": "text", "text": "[[say: right]]"}, reminder]
    answer = json.loads(
        post(model_server, "/v1/messages", ask("") | {"messages": [user(content)]})[1]
    )
    assert answer["content"][0]["text"] == "right"


def test_the_script_of_a_failed_turn_is_not_run_again(model_server: ModelServer) -> None:
    content = [{"type": "text", "text": text} for text in ("[[status: 400]]", "[[say: next]]")]
    status, _ = post(model_server, "/v1/messages", ask("") | {"messages": [user(content)]})
    assert status == 200


def test_errors_have_the_body_of_the_api(model_server: ModelServer) -> None:
    status, text = post(model_server, "/v1/messages", ask("[[status: 529]]"))
    assert (status, json.loads(text)["error"]["type"]) == (529, "overloaded_error")


def test_a_script_with_a_mistake_is_a_bad_request(model_server: ModelServer) -> None:
    status, text = post(model_server, "/v1/messages", ask("[[sing: la]]"))
    assert status == 400
    assert "unknown directive [[sing]]" in json.loads(text)["error"]["message"]


def test_the_clis_side_requests_do_not_run_the_script(model_server: ModelServer) -> None:
    body = ask("A title for: [[status: 500]]")
    status, _ = post(model_server, "/v1/messages", body, CLI)
    assert status == 200
    assert model_server.stats["auxiliary"] == 1


def test_tokens_are_counted_and_unknown_paths_refused(model_server: ModelServer) -> None:
    status, text = post(model_server, "/v1/messages/count_tokens", ask("hello"))
    assert status == 200
    assert json.loads(text)["input_tokens"] > 0
    assert post(model_server, "/v1/embeddings", {})[0] == 404
    assert post(model_server, "/api/event_logging/batch", {})[0] == 200


def test_head_requests_have_no_body_and_keep_the_connection(model_server: ModelServer) -> None:
    connection = connect(model_server)
    for method in ("HEAD", "GET"):
        connection.request(method, "/api/hello")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()


def test_codex_is_sent_from_its_web_socket_to_post(model_server: ModelServer) -> None:
    connection = connect(model_server)
    connection.request("GET", "/v1/responses", headers={"upgrade": "websocket"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 426


def test_the_responses_api_streams_items(model_server: ModelServer) -> None:
    tools = [{"type": "function", "name": "exec_command"}]
    body = {"model": "m", "input": "[[say: a]] [[bash: ls]]", "stream": True, "tools": tools}
    received = events(post(model_server, "/v1/responses", body)[1])
    assert received[0]["type"] == "response.created"
    assert received[-1]["type"] == "response.completed"
    message, call = received[-1]["response"]["output"]
    assert message["content"][0]["text"] == "a"
    assert json.loads(call["arguments"])["cmd"] == "ls"


def test_the_chat_api_streams_chunks_and_calls(model_server: ModelServer) -> None:
    tools = [{"type": "function", "function": {"name": "shell"}}]
    body = ask("[[say: a]] [[bash: ls]]", stream=True, tools=tools)
    received = events(post(model_server, "/v1/chat/completions", body)[1])
    choices = [chunk["choices"][0] for chunk in received]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "a"
    assert choices[-2]["delta"]["tool_calls"][0]["function"]["name"] == "shell"
    assert choices[-1]["finish_reason"] == "tool_calls"
    assert received[-1]["usage"]["total_tokens"] > 0


async def test_a_client_that_leaves_ends_the_hanging_answer(model_server: ModelServer) -> None:
    connection = connect(model_server)
    connection.request("POST", "/v1/messages", json.dumps(ask("[[hang]]", stream=True)))
    await eventually(lambda: model_server.stats["active"] == 1)
    connection.close()
    await eventually(lambda: model_server.stats["active"] == 0)


def test_stats_count_conversations_and_reset_forgets_them(model_server: ModelServer) -> None:
    for name in ("a", "b", "b"):
        header = {"x-claude-code-session-id": name}
        post(model_server, "/v1/messages", ask("[[say: hi]]", tools=[{"name": "Bash"}]), header)
    (prompt,) = model_server.stats["prompts"]
    assert prompt == {"prompt": "[[say: hi]]", "conversations": 2, "requests": 3}
    assert post(model_server, "/reset", {})[0] == 200
    assert model_server.stats["prompts"] == []
