import subprocess
from pathlib import Path

import pytest
from orbiter_images.base import discard


@pytest.mark.cluster
def test_a_mount_that_a_killed_run_left_is_unmounted_and_not_emptied(tmp_path: Path) -> None:
    kept, root = tmp_path / "kept", tmp_path / "root"
    kept.mkdir()
    (kept / "file").touch()
    (root / "proc").mkdir(parents=True)
    subprocess.run(["mount", "--bind", kept, root / "proc"], check=True)
    discard(root)
    assert not root.exists()
    assert (kept / "file").exists()


def test_discarding_what_is_not_there_does_nothing(tmp_path: Path) -> None:
    discard(tmp_path / "nothing")
