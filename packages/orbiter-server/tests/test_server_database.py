"""The server's file of sessions."""

import asyncio

from support.sqlite_writer import SqliteWriter

from orbiter.server._internal.database import Database
from orbiter.server._internal.sessions import Sessions


async def test_a_new_file_that_somebody_is_about_to_write_is_waited_for(tmp_path):
    database, writer = Database(tmp_path / "sessions.db"), SqliteWriter(tmp_path / "sessions.db")
    counting = asyncio.create_task(
        database.do(lambda db: db.execute("SELECT count(*) FROM sessions").fetchone())
    )
    await asyncio.wait({counting}, timeout=0.5)
    writer.commit()
    assert await counting == (0,)
    await database.close()


async def test_a_file_of_before_users_is_read_and_its_sessions_are_nobodys(tmp_path):
    database = Database(tmp_path / "sessions.db")
    await database.do(lambda db: db.execute("DROP INDEX sessions_by_user"))
    await database.do(lambda db: db.execute("ALTER TABLE sessions DROP COLUMN user"))
    insert = "INSERT INTO sessions (id, agent, created_at, updated_at) VALUES ('a', 'b', 1, 2)"
    await database.do(lambda db: db.execute(insert))
    await database.close()
    for _ in range(2):
        sessions = Sessions(database := Database(tmp_path / "sessions.db"))
        assert [s.id for s in (await sessions.page(9, None, None)).sessions] == ["a"]
        assert (await sessions.page(9, None, "ada")).sessions == []
        await database.close()


async def test_what_fails_half_way_leaves_nothing_behind(tmp_path):
    database = Database(tmp_path / "sessions.db")
    insert = "INSERT INTO unseen_messages VALUES (?, 0, '')"

    def half(db):
        db.execute(insert, ["a"])
        raise LookupError

    await asyncio.gather(database.do(half), return_exceptions=True)
    await database.do(lambda db: db.execute(insert, ["b"]))
    await database.close()
    database = Database(tmp_path / "sessions.db")
    found = await database.do(
        lambda db: db.execute("SELECT call_id FROM unseen_messages").fetchall()
    )
    await database.close()
    assert found == [("b",)]
