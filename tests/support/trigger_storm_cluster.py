"""A storm of events on the cluster: GitHub on the node, who is killed when, and how it goes."""

import base64
import itertools
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
from redis import Redis
from support.certificates import make_certificates
from support.cluster import Object
from support.fake_github import TOKEN
from support.faults import NO_ANSWER, NOW
from support.installation import on_the_node
from support.redis_server import PATIENT
from support.trigger_storm import Wanted, judge, manifests, summary
from support.webhooks import REPOSITORY
from support.world import CROWDED, ECHO_IMAGE, ENDED, SYSTEM, World, echo_task, worker_container

TESTS, ROOT = (Path(__file__).resolve().parents[up] for up in (1, 2))
PARTS: Final = ("operator", "receiver", "triggers", "receiver", "courier", "receiver")
"""Who is killed, in this order. The receiver has no Lease that its successor waits for, of 10 s."""
LOOK_SECONDS = 15.0
STUCK_SECONDS = 900.0
PAUSE_SECONDS = 0.5
"""Between two things that happen at GitHub."""
_SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}


class Github(NamedTuple):
    """The scripted GitHub.

    Attributes:
        url: Of its API.
        socket: Where it is told what to do.
    """

    url: str
    socket: str

    def call(self, method: str, path: str, body: Any = None) -> Any:
        transport = httpx.HTTPTransport(uds=self.socket)
        with httpx.Client(transport=transport, base_url="http://github", timeout=60) as client:
            return client.request(method, path, json=body).raise_for_status().json()


@contextmanager
def github_on_the_node(world: World, directory: Path, seed: int) -> Iterator[Github]:
    """The scripted GitHub, to which the courier goes meanwhile; behind it that is as before."""
    address, within = on_the_node(world.cluster)
    tls = make_certificates(directory / "tls", address=address)
    with tempfile.TemporaryDirectory() as short:
        words = (address, str(tls.certificate), str(tls.key), f"{short}/github", str(seed))
        program = (sys.executable, "-m", "support.storm_github_program", *words)
        with subprocess.Popen(
            [*within, *program], cwd=TESTS, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline())
                url = f"https://{address}:{port}/api/v3"
                with _courier_goes_to(world, url, address, tls.ca.read_text()):
                    yield Github(url, f"{short}/github")
            finally:
                process.terminate()


@contextmanager
def _courier_goes_to(world: World, url: str, address: str, ca: str) -> Iterator[None]:
    """The installation's courier is that GitHub's."""
    meta = {"name": "storm-github", "namespace": SYSTEM}
    world.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"token": TOKEN}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca.crt": ca}},
    )
    settings = {
        "github": {
            "url": url,
            "existingSecret": meta["name"],
            "caConfigMap": meta["name"],
            "privateNetworks": [f"{address}/32"],
            "writeSeconds": 0,
        },
        "repositories": {CROWDED: [REPOSITORY]},
        "pollSeconds": 20,
    }
    words = [
        word
        for name, value in settings.items()
        for word in ("--set-json", f"triggers.courier.{name}={json.dumps(value)}")
    ]
    wait = ("--wait", "--timeout", "180s")
    upgrade = ("upgrade", "orbiter", str(ROOT / "helm" / "orbiter"), "-n", SYSTEM)
    world.cluster.helm(*upgrade, "--reuse-values", *words, *wait)
    try:
        yield
    finally:
        world.cluster.helm("rollback", "orbiter", "-n", SYSTEM, *wait)
        for kind in ("secret", "configmap"):
            world.cluster.delete(kind, meta["name"], SYSTEM)


@contextmanager
def triggers_redis(world: World) -> Iterator[Redis]:
    """Redis with the rights of the triggers' controller: the operator knows nothing of events."""
    secret = world.cluster.get("secret", "orbiter-redis-auth", SYSTEM)["data"]
    password = base64.b64decode(secret["triggers-password"]).decode()
    with world.forward("service/orbiter-redis", 6379) as port:
        who = {"username": "triggers", "password": password}
        client = Redis(host="127.0.0.1", port=port, **who, decode_responses=True, **PATIENT)
        try:
            yield client
        finally:
            client.close()


class Storm:
    """One storm under way.

    Args:
        world: The cluster.
        github: Where it happens.
        seed: What all of it follows from.
        events: How many tasks there have to be.
        every: Seconds between two kills, about.
    """

    def __init__(
        self, world: World, github: Github, *, seed: int, events: int, every: float
    ) -> None:
        self.world, self.github = world, github
        self.seed, self.events, self.every = seed, events, every
        self.run = f"{random.SystemRandom().randrange(16**4):04x}"
        self.kills: Counter[str] = Counter()
        self.most_at_once = 0
        self._began = self._looked = self._changed_at = time.monotonic()
        self._before: Object = {}
        self._over = threading.Event()
        self._killer = threading.Thread(target=self._kill_on)
        self.names: dict[str, tuple[str, str]] = {}
        self.found: list[Object] = []
        self.state: Object = {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def begin(self) -> None:
        """Make the triggers, have it all happen, and kill."""
        # A container's own small wishes, so that five of them begin at once on two cores.
        template = worker_container(image=ECHO_IMAGE, resources=_SMALL)
        spec = {**echo_task("unused")["spec"], "podTemplate": template}
        spec["prompt"] = "Look at ${{event.title}}: ${{event.comment}}"
        made = manifests(spec, f"{{}}-{self.run}")
        for one in made:
            one["metadata"]["namespace"] = CROWDED
        self.world.apply(*made)
        hooks = {}
        for one in made:
            name = one["metadata"]["name"]
            trigger = name.removesuffix(f"-{self.run}")
            path, secret, uid = self._hook(name)
            hooks[trigger] = (self._receiver() + path, secret)
            self.names[trigger] = name, uid
        body = {"hooks": hooks, "events": self.events, "pause": PAUSE_SECONDS}
        self.say(f"{self.github.call('POST', '/play', body)['steps']} things happen at GitHub")
        self._killer.start()

    def _hook(self, name: str) -> tuple[str, str, str]:
        def found() -> Object | None:
            trigger = self.world.cluster.get("agenttrigger", name, CROWDED)
            return trigger if (trigger.get("status") or {}).get("webhookPath") else None

        trigger = self.world.until(f"{name} has an address", found, 120)
        assert trigger is not None
        data = self.world.cluster.get("secret", "orbiter-webhooks", CROWDED)["data"]
        secret = base64.b64decode(data[f"{name}.secret"]).decode()
        return trigger["status"]["webhookPath"], secret, trigger["metadata"]["uid"]

    def _receiver(self) -> str:
        service = self.world.cluster.get("service", "orbiter-receiver", SYSTEM)["spec"]
        return f"http://{service['clusterIP']}:{service['ports'][0]['port']}"

    def _kill_on(self) -> None:
        """Every five seconds or so all pods of a part; of the receiver's two one."""
        chance = random.Random(self.seed)
        for part in itertools.cycle(PARTS):
            # The pace of the kills, not a wait for something.
            if self._over.wait(self.every * chance.uniform(0.6, 1.4)):
                return
            selector = f"app.kubernetes.io/component={part}"
            with suppress(*NO_ANSWER):
                found = self.world.kubectl(
                    "-n", SYSTEM, "get", "pods", "-l", selector, "-o", "name"
                )
                pods = found.split()
                chosen = [chance.choice(pods)] if pods and part == "receiver" else pods
                if chosen:
                    self.world.kubectl("-n", SYSTEM, "delete", *chosen, *NOW)
                    self.kills[part] += 1

    def calm(self) -> None:
        """Kill nobody any more."""
        self._over.set()
        self._changed_at = time.monotonic()
        if self._killer.ident is not None:
            self._killer.join()

    def look(self) -> bool:
        """See how it is, now and then; returns whether that was done."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        self._looked = time.monotonic()
        self.state = self.github.call("GET", "/state")
        try:
            tasks = self.world.cluster.list_all("agenttasks", CROWDED)
        except NO_ANSWER:
            return False
        mine = {name for name, _ in self.names.values()}
        label = "orbiter.dev/agenttrigger"
        self.found = [one for one in tasks if one["metadata"].get("labels", {}).get(label) in mine]
        phases = Counter((one.get("status") or {}).get("phase", "new") for one in self.found)
        self.most_at_once = max(self.most_at_once, phases["Running"])
        self.say(
            f"{self.state['counts'].get('happened', 0)} happened, {len(self.found)} tasks "
            f"{dict(phases)}, {len(self.state['comments'])} comments, "
            f"{self.kills.total()} kills"
        )
        now = {**phases, "comments": [one["body"] for one in self.state["comments"]]}
        if now != self._before:
            self._before, self._changed_at = now, self._looked
        return True

    @property
    def is_stuck(self) -> bool:
        """Whether nothing has changed for long."""
        return time.monotonic() - self._changed_at > STUCK_SECONDS

    def is_made(self) -> bool:
        """Whether all has happened, and as many tasks as there have to be have ended."""
        if not self.look():
            return False
        ended = [one for one in self.found if (one.get("status") or {}).get("phase") in ENDED]
        return self.is_stuck or (self.state["done"] and len(ended) >= self.events)

    def problems(self) -> list[str]:
        """What is not as it has to be."""
        return judge(self.wanted, self.names, self.found, self.state["comments"])

    @property
    def wanted(self) -> list[Wanted]:
        return [Wanted(*one) for one in self.state["wanted"]]

    def is_told(self) -> bool:
        """Whether nothing is left to do, or nobody does it."""
        return self.look() and (self.is_stuck or not self.problems())

    def summary(self) -> Object:
        """What it was, as JSON."""
        counts, comments = self.state["counts"], len(self.state["comments"])
        found = summary(
            *(self.seed, self.wanted, counts, self.kills, len(self.found), comments, self.seconds)
        )
        return found | {"most_at_once": self.most_at_once}

    def left(self, stream: str) -> list[str]:
        """The entries of a stream that are of one of our triggers."""
        with triggers_redis(self.world) as redis:
            entries: Any = redis.xrange(stream)
        return [str(one) for one in entries if f"-{self.run}" in str(one)]

    def say(self, text: str) -> None:
        minutes, seconds = divmod(int(self.seconds), 60)
        print(f"[{minutes:3d}:{seconds:02d}] {text}", flush=True)

    def clean(self) -> None:
        self.calm()
        for name, _ in self.names.values():
            self.world.cluster.delete("agenttrigger", name, CROWDED)
