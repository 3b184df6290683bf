"""The lines of redis-cli that are tried, by what the attacker wants.

`$input` and its like are the keys of A, `$own_input` those of B: see `attacks.names.names_of`. What
aims at A says so by its name: `against_c` makes of it the same against C.
"""

import re
from typing import Final

Lines = tuple[tuple[str, str], ...]

ADD: Final = "* data {}"
LOOP: Final = '"local n = 0 for i = 1, 1000 do n = n + i end return n" 0'

# Work that is A's, by the name of the user who tries.
CONVERSATION = (
    ("reads what A's session was asked", "XRANGE $po_input - +"),
    ("reads what A's session answered", "XRANGE $po_output - +"),
    ("listens for A's answers", "XREAD BLOCK 10 STREAMS $po_output 0"),
    ("reads A's memory", "GET $po_snapshot"),
    ("reads where A's session stands", "HGETALL $po_state"),
    ("reads A's latest turns", "LRANGE $po_turns 0 -1"),
    ("reads the record of A's user", "GET $user_record"),
    ("reads what A could not read", "XRANGE $po_dead - +"),
    ("reads what A's session does", "XRANGE $po_transcript - +"),
    ("puts words into the mouth of A's session", f"XADD $po_transcript {ADD}"),
    ("asks A's session something", f"XADD $po_input {ADD}"),
    ("answers in the name of A's session", f"XADD $po_output {ADD}"),
    ("plants a memory in A's session", "SET $po_snapshot planted"),
    ("says that A's session is busy", "HSET $po_state state busy"),
    ("puts a turn into A's history", "RPUSH $po_turns {}"),
    ("holds A's session", "HSET $po_hold reason stopped"),
    ("takes the lease of A's session", "HSET $po_lease token mine"),
    ("exchanges the record of A's user", "SET $user_record {}"),
    ("lets the record of A's user expire", "EXPIRE $user_record 1"),
    ("claims A's message", "XCLAIM $po_input po-worker thief 0 0-1 JUSTID"),
    ("deletes A's message", "XDEL $po_input 0-1"),
    ("deletes A's conversation", "UNLINK $po_input $po_output $po_snapshot"),
    ("fills A's dead letters", f"XADD $po_dead {ADD}"),
    (
        "reads A's memory by a script",
        "EVAL \"return redis.call('GET', KEYS[1])\" 1 $po_snapshot",
    ),
)
SERVER = (
    ("lists all keys", "KEYS *"),
    ("goes through all keys", "SCAN 0"),
    ("picks some key", "RANDOMKEY"),
    ("counts the keys", "DBSIZE"),
    ("is told of everybody's keys", "CLIENT TRACKING ON BCAST"),
    ("watches what everybody does", "MONITOR"),
    ("reads the configuration", "CONFIG GET *"),
    ("changes the configuration", "CONFIG SET maxmemory-policy allkeys-lru"),
    ("lists users and their rules", "ACL LIST"),
    ("reads another user's rules", "ACL GETUSER default"),
    ("gives itself all rights", "ACL SETUSER thief on nopass ~* +@all"),
    ("deletes the operator's user", "ACL DELUSER operator"),
    ("lists who is connected", "CLIENT LIST"),
    ("cuts the operator off", "CLIENT KILL USER operator"),
    ("stops everybody for a while", "CLIENT PAUSE 1"),
    ("empties the database", "FLUSHALL"),
    ("empties another database", "SWAPDB 0 1"),
    ("goes into another database", "SELECT 1"),
    ("loads functions", 'FUNCTION LOAD REPLACE "#!lua name=mine\nredis.register_function(\'f\', '
     'function() return 1 end)"'),
    ("deletes all functions", "FUNCTION FLUSH"),
    ("forgets all scripts", "SCRIPT FLUSH"),
    ("makes Redis somebody's replica", "REPLICAOF NO ONE"),
    ("copies keys to a server of its own", "MIGRATE 127.0.0.1 1 nothing 0 10"),
    ("lists modules", "MODULE LIST"),
    ("reads what was slow", "SLOWLOG GET"),
    ("reads about the server", "INFO"),
    ("writes the database to the disk", "BGREWRITEAOF"),
    ("speaks on a channel", "PUBLISH news x"),
    ("listens to all channels", "PSUBSCRIBE *"),
    ("waits on a list of A", "BLPOP $po_turns 0.01"),
    ("renames A's input", "RENAME $po_input $own_po_input"),
    ("copies A's memory to its own", "COPY $po_snapshot $own_po_snapshot REPLACE"),
    ("sorts A's turns into a key of its own", "SORT $po_turns ALPHA STORE $own_po_turns"),
    ("uses up the ids of A's output", "XSETID $po_output 9999999999999-0"),
    ("empties A's answers", "XTRIM $po_output MAXLEN 0"),
    ("removes the group of A's session", "XGROUP DESTROY $po_input po-worker"),
)  # fmt: skip
QUEUE_CLOSED = (
    ("puts work on A's queue", f"XADD $input {ADD}"),
    (
        "puts work on A's queue by a script",
        "EVAL \"return redis.call('XADD', KEYS[1], '*', 'data', '{}')\" 1 $input",
    ),
    ("deletes what is known of A's attempt", "DEL $record"),
    ("deletes A's queue", "UNLINK $input"),
    ("removes the group of A's queue", "XGROUP DESTROY $input developer-workers"),
    ("empties A's queue", "XTRIM $input MAXLEN 0"),
    ("reads which sessions there are", "HGETALL $registry"),
)
QUEUE_OPEN = (
    ("reads A's prompts", "XRANGE $input - +"),
    ("reads what is known of A's attempt", "HGET $record entry"),
    ("writes into what is known of A's attempt", "HSET $record attacker here"),
    ("claims A's work", "XCLAIM $input developer-workers thief 0 0-1 JUSTID"),
    ("reads A's queue in the group", "XREADGROUP GROUP developer-workers thief STREAMS $input 0"),
    ("deletes A's work", "XDEL $input 0-1"),
    ("acknowledges A's work", "XACK $input developer-workers 0-1"),
    ("adds to A's outputs", f"XADD $output {ADD}"),
    ("reads A's outputs", "XRANGE $output - + COUNT 1"),
    ("trims A's outputs", f"XADD $output MAXLEN 1000000 {ADD}"),
    ("takes the lease of A's worker", "HSET $lease attacker here"),
    ("reads the session of A's agent", "GET $task_snapshot"),
    ("lists what is kept of A's work", "HKEYS $checkpoint"),
    ("lists the files of A's work", "HKEYS $artifacts"),
    ("puts a file among those of A's work", "HSET $artifacts index {}"),
    ("reads what is kept of A's work", "HGET $checkpoint 1:session"),
    ("plants work in A's checkpoint", "HSET $checkpoint 1:session planted"),
    ("fills A's checkpoint", f"HSET $checkpoint 9:workspace {'x' * 10_000}"),
    ("forges the generation of A's checkpoint", 'HSET $record checkpoint {"generation":9}'),
    ("lets A's checkpoint expire", "EXPIRE $checkpoint 0"),
    ("reads what A's agent does", "XRANGE $transcript - +"),
    ("puts words into the mouth of A's agent", f"XADD $transcript {ADD}"),
    ("lets A's transcript expire", "EXPIRE $transcript 0"),
)
EVENTS = (
    ("hands in an event of A's triggers", f"XADD $events {ADD}"),
    ("reads the events of A's triggers", "XRANGE $events - +"),
    ("hands in an event of its own that nobody has signed", f"XADD $own_events {ADD}"),
    ("says that A was told already", "HSET $told x sent"),
    ("reads what A could not be told", "XRANGE $untold - +"),
)
PRODUCING = (
    *EVENTS,
    ("reads A's prompts", "XRANGE $input - +"),
    ("puts work on A's queue", f"XADD $input {ADD}"),
    ("reads A's outputs", "XRANGE $output - + COUNT 1"),
    ("forges an output of A", f"XADD $output {ADD}"),
    ("claims work of its own namespace", "XREADGROUP GROUP g thief STREAMS $own_producer_input >"),
    ("reads what is known of A's attempt", "HGETALL $record"),
    ("reads the record of A's user", "GET $user_record"),
    ("asks A's session something", f"XADD $po_input {ADD}"),
    ("reads what A's session answered", "XRANGE $po_output - +"),
    ("reads the files of A's work", "HGETALL $artifacts"),
    ("forges a hint of a worker of A", f"XADD $lifecycle {ADD}"),
    ("reads what A's agent does", "XRANGE $transcript - +"),
    ("reads what an agent of its own namespace does", "XRANGE $own_po_transcript - +"),
    ("runs a script", f"EVAL {LOOP}"),
    ("lists functions", "FUNCTION LIST"),
    ("lists all keys", "KEYS *"),
    ("gives itself all rights", "ACL SETUSER thief on nopass ~* +@all"),
    ("reads the configuration", "CONFIG GET *"),
    ("empties the database", "FLUSHALL"),
)
READING = (
    ("reads what A's agent does", "XRANGE $transcript - +"),
    ("reads what A's session does", "XREAD COUNT 9 STREAMS $po_transcript 0"),
    ("looks whether A has a transcript", "EXISTS $transcript"),
    ("puts words into the mouth of A's agent", f"XADD $transcript {ADD}"),
    ("deletes A's transcript", "UNLINK $transcript"),
    ("reads A's prompts", "XRANGE $input - +"),
    ("reads A's outputs", "XRANGE $output - + COUNT 1"),
    ("reads what A's session was asked", "XRANGE $po_input - +"),
    ("reads what A's session answered", "XRANGE $po_output - +"),
    ("reads what is known of A's attempt", "HGETALL $record"),
    ("reads the files of A's work", "HGETALL $artifacts"),
    ("reads A's memory", "GET $po_snapshot"),
    ("reads the record of A's user", "GET $user_record"),
    ("puts work on A's queue", f"XADD $input {ADD}"),
)
"""What whoever may read B's transcripts tries against a victim."""
READING_OWN = (
    ("reads what its own session was asked", "XRANGE $own_po_input - +"),
    ("reads its own session's memory", "GET $own_po_snapshot"),
    ("forges its own session's work", f"XADD $own_po_transcript {ADD}"),
    ("empties its own transcript", "XTRIM $own_po_transcript MAXLEN 0"),
    ("deletes its own transcript", "UNLINK $own_po_transcript"),
    ("makes a group on its own transcript", "XGROUP CREATE $own_po_transcript g 0"),
    ("runs a script", f"EVAL {LOOP}"),
    ("lists functions", "FUNCTION LIST"),
    ("lists all keys", "KEYS *"),
    ("goes through all keys", "SCAN 0"),
    ("is told of everybody's keys", "CLIENT TRACKING ON BCAST"),
    ("lists users and their rules", "ACL LIST"),
    ("gives itself all rights", "ACL SETUSER thief on nopass ~* +@all"),
    ("empties the database", "FLUSHALL"),
)


def against_c(lines: Lines) -> Lines:
    """Those of the lines that aim at A, aimed at C, the tenant whose keys have a prefix."""
    return tuple(
        (re.sub(r"\bA\b", "C", name), re.sub(r"\$(?!own_)", "$c_", command))
        for name, command in lines
        if re.search(r"\bA\b", name)
    )
