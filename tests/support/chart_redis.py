"""The bundled Redis' users, as its container makes them of the chart's rights and passwords."""

import subprocess
from pathlib import Path
from typing import Any

Object = dict[str, Any]


def acl_file(items: list[Object], directory: Path, passwords: dict[str, str]) -> str:
    """Run the beginning of the container's own command.

    Args:
        items: What the chart renders.
        directory: A directory of the test's.
        passwords: By user, as the Secret has them.

    Returns:
        The ACL file that Redis would read.
    """
    [config] = [
        item["data"]
        for item in items
        if item["kind"] == "ConfigMap" and "users.acl" in item.get("data", {})
    ]
    [redis] = [item["spec"]["template"]["spec"] for item in items if item["kind"] == "StatefulSet"]
    [container] = redis["containers"]
    shell, flag, script = container["command"]
    (directory / "users.acl").write_text(config["users.acl"])
    given = directory / "passwords"
    given.mkdir()
    for user, password in passwords.items():
        (given / user).write_text(password)
    made = directory / "made"
    made.mkdir()
    here = (
        script.replace("/etc/redis-passwords", str(given))
        .replace("/etc/redis/", f"{directory}/")
        .replace("/run/redis", str(made))
        .replace("exec redis-server", "exec test -s")
    )
    (directory / "redis.conf").write_text(config["redis.conf"])
    subprocess.run([shell, flag, here], check=True)
    return (made / "users.acl").read_text()


def passwords_of(items: list[Object]) -> dict[str, str]:
    """A password for each user that the chart's Redis begins with: `NAME-secret`."""
    [redis] = [item["spec"]["template"]["spec"] for item in items if item["kind"] == "StatefulSet"]
    [volume] = [item for item in redis["volumes"] if item["name"] == "passwords"]
    sources = [source["secret"]["items"] for source in volume["projected"]["sources"]]
    return {item["path"]: f"{item['path']}-secret" for [item] in sources}
