"""The load benchmark itself, small: what it counts must be countable, and nothing lost."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"


@pytest.mark.integration
async def test_many_streams_that_are_cut_lose_and_double_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    import bench_server

    waves = await bench_server.measure(tmp_path, streams=40, waves=2, tokens=20, per_second=20)
    assert [(wave.lost, wave.doubled) for wave in waves] == [(0, 0), (0, 0)]
    assert all(wave.server_rss_mb > 1 and wave.server_cpu_seconds > 0 for wave in waves)
    assert abs(bench_server.growth(waves)) < 1
