"""`orbiter serve` with a certificate of one's own CA, and what it says of files that are no use."""

import json
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from support.certificates import make_certificates

pytestmark = pytest.mark.integration
ORBITER = str(Path(sys.executable).parent / "orbiter")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "parrot.yaml").write_text("name: parrot\nmodel: openai:gpt-5\n")
    return tmp_path


def test_agents_are_served_with_https(here):
    ours = make_certificates(here / "ours")
    served = subprocess.Popen(
        [ORBITER, "serve", "parrot.yaml", "--port", "0", "--json",
         "--tls-certificate", ours.certificate, "--tls-key", ours.key],
        cwd=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        url = json.loads(served.stdout.readline())["url"]
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(ours.ca))
        with urllib.request.urlopen(f"{url}/healthz", context=trusting) as answer:
            assert json.load(answer)["status"] == "ok"
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(f"{url}/healthz")
        served.send_signal(signal.SIGTERM)
        served.communicate(timeout=30)
        assert served.returncode in (0, -signal.SIGTERM)
    finally:
        served.kill()
        served.communicate()


def test_files_that_are_no_certificate_and_its_key_are_named_in_one_line(here):
    ours = make_certificates(here / "ours")
    other = make_certificates(here / "theirs")
    for words, sentence in (
        (["--tls-certificate", ours.certificate], "name both, tls_certificate and tls_key"),
        (["--tls-certificate", ours.certificate, "--tls-key", other.key], "theirs/tls.key: "),
        (["--tls-certificate", "/not/there", "--tls-key", ours.key], "No such file or directory"),
    ):
        done = subprocess.run(
            [ORBITER, "serve", "parrot.yaml", "--port", "0", *words],
            cwd=here, text=True, capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
