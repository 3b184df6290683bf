"""Stands for kubectl in tests: started as a program, it answers from a directory of objects.

`fake_kubectl.py` writes the objects and reads the calls. Only what our commands use is there: get
(with --watch), create, patch, logs, port-forward, auth whoami and config view.
"""

import itertools
import json
import os
import sys
import time

# Only what is quick to load, because it is started again and again.
# ruff: noqa: PTH105, PTH107, PTH110, PTH123
HOME = os.environ["FAKE_KUBECTL_HOME"]
_POLL_SECONDS = 0.01
_KINDS = {
    "agenttasks.orbiter.dev": "AgentTask",
    "posessions.orbiter.dev": "POSession",
    "agentprofiles.orbiter.dev": "AgentProfile",
    "agentbudgets.orbiter.dev": "AgentBudget",
    "agenttriggers.orbiter.dev": "AgentTrigger",
    "clusteragentprofiles.orbiter.dev": "ClusterAgentProfile",
    "pods": "Pod",
    "events": "Event",
    "secret": "Secret",
    "services": "Service",
    "crd": "CustomResourceDefinition",
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "leases": "Lease",
    "serviceaccounts": "ServiceAccount",
}


def read(name: str) -> str:
    with open(f"{HOME}/{name}") as file:
        return file.read()


def append(name: str, line: str) -> None:
    with open(f"{HOME}/{name}", "a") as file:
        file.write(f"{line}\n")


def has(name: str) -> bool:
    return os.path.exists(f"{HOME}/{name}")


def objects() -> list:
    return json.loads(read("objects.json"))


def written(value: dict) -> str:
    """As JSON; a text "the-overlay" in it is what the test has put into that file, as it is."""
    text = json.dumps(value)
    return text.replace('"the-overlay"', read("overlay")) if has("overlay") else text


def keep(found: list) -> None:
    with open(f"{HOME}/objects.new", "w") as draft:
        json.dump(found, draft)
    os.replace(f"{HOME}/objects.new", f"{HOME}/objects.json")


def fail(text: str) -> None:
    sys.exit(f"Error from server {text}")


def flag(words: list[str], *names: str, default: str = "") -> str:
    """The value of a flag, written `--flag=value` or `-f value`."""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else words[index + 1]
    return default


def here(found: dict, words: list[str]) -> bool:
    if "--all-namespaces" in words:
        return True
    return found["metadata"]["namespace"] == flag(words, "--namespace", default="default")


def raw(path: str) -> None:
    """A list of one kind, `limit` at a time; the token is how many there were before."""
    from urllib.parse import parse_qs, urlsplit

    asked = urlsplit(path)
    query = {key: values[0] for key, values in parse_qs(asked.query).items()}
    *_, plural = parts = asked.path.split("/")
    if has(f"forbidden-{plural}"):
        fail(f'(Forbidden): {plural}.orbiter.dev is forbidden: User "eve" cannot list resource')
    if "continue" in query and has("forgets"):
        os.remove(f"{HOME}/forgets")
        fail("(Expired): The provided continue parameter is too old to display a list result")
    found = [each for each in objects() if each["kind"] == _KINDS[f"{plural}.orbiter.dev"]]
    if "namespaces" in parts:
        space = parts[parts.index("namespaces") + 1]
        found = [each for each in found if each["metadata"]["namespace"] == space]
    begin = int(query.get("continue", 0))
    end = begin + int(query["limit"])
    token = str(end) if end < len(found) else ""
    print(written({"kind": "List", "metadata": {"continue": token}, "items": found[begin:end]}))


def get(words: list[str]) -> None:
    if "--raw" in words:
        return raw(words[words.index("--raw") + 1])
    kinds = [_KINDS[each] for each in words[1].split(",")]
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), words[2:]))
    name = names[0] if names else None
    if "--watch" in words:
        return watch(kinds[0], flag(words, "--field-selector").removeprefix("metadata.name="))
    found = [o for o in objects() if o["kind"] in kinds and here(o, words)]
    if name is not None:
        found = [each for each in found if each["metadata"]["name"] in names]
    selector = flag(words, "--selector")
    if selector:
        wanted = dict(each.split("=") for each in selector.split(","))
        found = [o for o in found if wanted.items() <= o["metadata"].get("labels", {}).items()]
    if flag(words, "-o").startswith("jsonpath"):
        import base64
        import re

        for secret in found:
            data = {k: base64.b64encode(v.encode()).decode() for k, v in secret["data"].items()}
            asked = re.findall(r"\{\.data\.([^}]+)\}", flag(words, "-o"))
            keys = (key.replace("\\.", ".") for key in asked)
            print("|".join(data.get(key, "") for key in keys), end="")
    elif flag(words, "-o") == "name":
        print("\n".join(each["metadata"]["name"] for each in found))
    elif len(names) == 1 and len(found) < 2:
        print(written(found[0]) if found else "", end="")
    else:
        print(written({"kind": "List", "items": found}))
    return None


def watch(kind: str, name: str) -> None:
    """Tell each state of one object, until our reader has had enough."""
    before = None
    while True:
        now = next(
            (o for o in objects() if (o["kind"], o["metadata"]["name"]) == (kind, name)), None
        )
        if now != before:
            event = "DELETED" if now is None else "MODIFIED" if before else "ADDED"
            print(written({"type": event, "object": now or before}), flush=True)
            append("told", event)
            if has("watch-breaks"):
                os.remove(f"{HOME}/watch-breaks")
                sys.exit("Unable to connect to the server: connection refused")
        before = now
        time.sleep(_POLL_SECONDS)


def create(words: list[str], given: str) -> None:
    new = json.loads(given)
    names = [each["metadata"]["name"] for each in objects() if each["kind"] == new["kind"]]
    metadata = new["metadata"]
    metadata.setdefault("name", f"{metadata.pop('generateName', '')}x7k2p")
    metadata["namespace"] = flag(words, "--namespace", default="default")
    metadata["uid"] = f"uid-{metadata['name']}"
    if metadata["name"] in names:
        fail(f'(AlreadyExists): agenttasks.orbiter.dev "{metadata["name"]}" already exists')
    keep([*objects(), new])
    print(json.dumps(new))


def patch(words: list[str], given: str) -> None:
    kind, name, change = _KINDS[words[1]], words[2], json.loads(given)
    found = objects()
    spec = next(o for o in found if (o["kind"], o["metadata"]["name"]) == (kind, name))["spec"]
    if flag(words, "--type") == "merge":
        spec.update(change["spec"])
    else:
        [step] = change
        if step["path"] == "/spec/input":
            spec["input"] = step["value"]
        else:
            spec["input"].append(step["value"])
    keep(found)
    print(f"{words[1]}/{name} patched")


def port_forward(words: list[str]) -> None:
    """Carry bytes between a port of ours and the real server that the test runs."""
    import socket
    import threading

    def carry(source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    if has("no-forward"):
        sys.exit(read("no-forward"))
    target = int(read("redis-port"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        print(f"Forwarding from 127.0.0.1:{port} -> {words[-1].lstrip(':')}", flush=True)
        append("forwards", str(os.getpid()))
        while True:
            near, _ = server.accept()
            print(f"Handling connection for {port}", flush=True)
            far = socket.create_connection(("127.0.0.1", target))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=carry, args=(source, sink), daemon=True).start()


def main() -> None:
    words = sys.argv[1:]
    given = "" if os.isatty(0) else sys.stdin.read()
    append("calls.jsonl", json.dumps({"argv": words, "stdin": given}))
    if has("fails"):
        sys.exit(read("fails"))
    flags = ("--kubeconfig=", "--context=", "--namespace=")
    verb, *_ = rest = [word for word in words if not word.startswith(flags)]
    rest += [word for word in words if word.startswith("--namespace=")]
    if verb == "get":
        get(rest)
    elif verb == "create":
        create(rest, given)
    elif verb == "patch":
        patch(rest, given)
    elif verb == "port-forward":
        port_forward([word for word in rest if not word.startswith("--namespace=")])
    elif verb == "logs":
        print(f"the log of {rest[1]}")
    elif verb == "version":
        minor = read("minor-version") if has("minor-version") else "35"
        server = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}
        print(json.dumps({"serverVersion": server}))
    elif rest[:2] == ["auth", "can-i"]:
        sys.exit(1 if has("no-rights") else 0)
    elif verb == "auth":
        if has("nobody"):
            sys.exit('error: the server doesn\'t have a resource type "selfsubjectreviews"')
        print(json.dumps({"status": {"userInfo": {"username": "alice@example.com"}}}))
    elif verb == "config":
        print("default", end="")
    else:
        sys.exit(f"the fake kubectl does not know {verb!r}")


if __name__ == "__main__":
    main()
