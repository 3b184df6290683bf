{{/*
The Redis users, one line each as in an ACL file; the password is given as its SHA-256.

Nobody is `default`. Each program has the keys and the commands it uses and no others: a worker can
take work and answer it but cannot create any (its XADD reaches outputs only), a developer worker
cannot read conversations, nobody can list keys, read the configuration or flush the database.
`+@connection -@dangerous` is PING, HELLO, CLIENT SETINFO and the like, without CLIENT KILL and LIST.
*/}}
{{- define "orbiter.redis.acl" -}}
{{- $connection := "+@connection -@dangerous -select +@transaction" -}}
{{- $consume := "+xreadgroup +xack +xdel +xclaim +xautoclaim +xpending +xrange +xlen +xinfo +xgroup|create" -}}
{{- $scripts := "+eval +evalsha +script|load +script|exists" -}}
user default off sanitize-payload resetchannels -@all
user operator on #{{ .operator }} resetchannels ~worker:* ~agenttask:* ~session:* -@all {{ $connection }} {{ $consume }} {{ $scripts }} +xadd +xread +xrevrange +xtrim +xgroup +exists +type +ttl +expire +del +unlink +get +set +hget +hmget +hgetall +hset +hdel +hexists
user developer on #{{ .developer }} resetchannels ~worker:developer:* ~worker:lifecycle ~agenttask:* -@all {{ $connection }} {{ $consume }} {{ $scripts }} +exists +expire +hget +hmget +hgetall +hset +hexists (+xadd ~worker:developer:output ~worker:developer:input:dead ~worker:lifecycle)
user po on #{{ .po }} resetchannels ~worker:po:* ~worker:lifecycle ~session:* -@all {{ $connection }} {{ $consume }} +exists +type +ttl +expire +get +getex +set +del +hget +hgetall (+xadd ~worker:po:*:output ~worker:po:*:dead ~worker:lifecycle)
{{- end }}

{{- define "orbiter.redis.conf" -}}
bind * -::*
port 6379
dir /data
aclfile /etc/redis/users.acl
# The append-only file alone is the durable copy: at most one second is lost when a node dies,
# nothing when the process does.
appendonly yes
appendfsync everysec
save ""
# A full queue must refuse new work, never forget old work.
maxmemory {{ .Values.redis.maxMemory }}
maxmemory-policy noeviction
tcp-keepalive 60
{{- end }}

{{/* PONG and nothing else: while Redis still reads its file it answers LOADING. */}}
{{- define "orbiter.redis.ping" -}}
exec:
  command: [sh, -c, 'test "$(redis-cli --user operator --no-auth-warning ping)" = PONG']
{{- end }}
