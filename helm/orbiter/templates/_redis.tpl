{{/* The Secret with Redis' passwords, and with the master key of those that the operator makes. */}}
{{- define "orbiter.redis.authSecret" -}}
{{- .Values.redis.auth.existingSecret | default (printf "%s-auth" (include "orbiter.redis.name" .)) -}}
{{- end }}

{{/*
The users that the bundled Redis begins with, each with the key NAME-password in that Secret. Where the
operator makes users, developer, po and all that begin with chat are an earlier version's: who has no
password is left out.
*/}}
{{- define "orbiter.redis.users" -}}
{{- $users := list "operator" "developer" "po" -}}
{{- if eq .Values.redis.users "Managed" -}}
{{- $users = append $users "chat" -}}
{{- end -}}
{{- range .Values.workers.namespaces -}}
{{- $users = append $users (printf "chat-%s" .) -}}
{{- end -}}
{{- if include "orbiter.webhooks" . -}}
{{- $users = concat $users (list "triggers" "receiver") -}}
{{- end -}}
{{- if include "orbiter.courier" . -}}
{{- $users = append $users "courier" -}}
{{- end -}}
{{- toJson $users -}}
{{- end }}

{{/* Those that are there for what an earlier version has begun; whose passwords are yours, you end. */}}
{{- define "orbiter.redis.formerUsers" -}}
{{- $ours := not (or .Values.redis.external.existingSecret .Values.redis.auth.existingSecret) -}}
{{- if and $ours (eq .Values.redis.users "Managed") -}}
{{- without (include "orbiter.redis.users" . | fromJsonArray) "operator" "triggers" "receiver" "courier" | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end }}

{{/* Its host and database in URLs; `inside` adds where pods of ours find the CA's certificate. */}}
{{- define "orbiter.redis.address" -}}
{{ include "orbiter.redis.name" . }}.{{ .Release.Namespace }}.svc:6379/0
{{- end }}
{{- define "orbiter.redis.inside" -}}
{{ include "orbiter.redis.address" . }}{{ if include "orbiter.redis.tls" . }}?ssl_ca_certs=/etc/orbiter/redis/ca.crt{{ end }}
{{- end }}
{{- define "orbiter.redis.scheme" -}}
{{ eq (include "orbiter.redis.tls" .) "true" | ternary "rediss" "redis" }}
{{- end }}

{{/*
The Redis users, one line each as in an ACL file. PASSWORD stands for the SHA-256 of a password; Redis'
container puts it in at its start, and leaves out who has none.

Nobody can be `default`: it is off. It keeps its rights all the same, because Redis replays its
append-only file in that user's name, and leaves out (with a line in its log) whatever transaction it
may not do; without them a restart forgets the queue. Each program has the keys and the commands it uses and no others: a worker can
take work and answer it but cannot create any (its XADD reaches outputs only), a developer worker
cannot read conversations, a chat front end can speak to the sessions of its namespace and read their
answers, nobody else can
list keys, nobody at all read the configuration or flush the database. The operator alone may put a
stream in another's place (RENAME): an id too large would close it for all. A PO worker may overwrite a snapshot and a
session record, but no stream. The operator may delete a session's keys and end its own blocked read.
With `redis.users: Managed` it makes the users of namespaces and of sessions, and moves a session from the
keys without a prefix to those of its namespace, with its user's record; it goes through all keys (SCAN)
to count each namespace's bytes. Those below are then only
for workers and front ends that an earlier version has begun with.
Sessions have users of their own, which the operator makes; with `redis.users: Static` they share `po`.
The receiver of webhooks may add events and do nothing else; the controller of triggers takes them. The courier adds
those that a poll finds, sees which have made a task, and keeps how far it has come and what was told.
`+@connection -@dangerous` is PING, HELLO, CLIENT SETINFO and the like, without CLIENT KILL and LIST.
*/}}
{{- define "orbiter.redis.acl" -}}
{{- $values := .Values -}}
{{- $managed := eq $values.redis.users "Managed" -}}
{{- $connection := "+@connection -@dangerous -select -client|tracking +@transaction" -}}
{{- $consume := "+xreadgroup +xack +xdel +xclaim +xpending +xrange +xinfo +xgroup|create +xgroup|delconsumer" -}}
{{- $scripts := "+eval +evalsha +script|load +script|exists +fcall" -}}
{{- $common := printf "-@all %s %s %s" $connection $consume $scripts -}}
user default off resetpass sanitize-payload resetchannels ~* +@all
user operator on PASSWORD resetchannels ~worker:* ~agenttask:* {{ if $managed }}~session:user:* ~{*}:worker:* ~{*}:agenttask:* ~{*}:session:user:* {{ end }}{{ $common }} +xadd +xread +xlen +xtrim +xrevrange +rename +time +exists +expire +hget +hmget +hgetall +hset +hexists +hdel +client|unblock +info +scan +memory|usage +ttl {{ if $managed }}+acl|setuser +acl|deluser +acl|users +function|load +client|kill +client|list +type +hlen +getrange {{ end }}(+unlink ~worker:po:*{{ if $managed }} ~{*}:worker:po:*{{ end }})
user developer on PASSWORD resetchannels ~worker:developer:* ~worker:lifecycle ~agenttask:* {{ $common }} +exists +expire +type +ttl +get +set +hget +hmget +hset +hexists +hkeys +hdel (+xadd ~worker:developer:output ~worker:developer:*:dead ~worker:lifecycle) (-@all +xadd +xrange +xrevrange ~agenttask:*:transcript)
user po on PASSWORD resetchannels ~worker:po:* ~worker:lifecycle ~session:* {{ $common }} +exists +expire +type +ttl +get +hget +hmget +hgetall +hset +hsetnx +hdel +hincrbyfloat +rpush +ltrim +lrange (+set ~worker:po:*:snapshot ~session:*) (+xadd ~worker:po:*:output ~worker:po:*:dead ~worker:lifecycle) (+xadd +xrevrange ~worker:po:*:transcript)
{{- if $managed }}
user chat on PASSWORD resetchannels ~session:user:* -@all {{ $connection }} +exists +expire +get +set +hgetall (+xadd ~worker:po:*:input) (+xread +xrange +xrevrange +xlen +hgetall +hget +hmget %R~worker:po:*:output %R~worker:po:*:state)
{{- end }}
{{- if include "orbiter.webhooks" . }}
user triggers on PASSWORD resetchannels ~{*}:agenttrigger:* -@all {{ $connection }} +client|unblock +xreadgroup +xack +xdel +xrange +xadd +xgroup|create +mget +set +eval +evalsha +script|load
user receiver on PASSWORD resetchannels ~{*}:agenttrigger:events -@all {{ $connection }} +xadd +xlen +memory|usage +expire
{{- end }}
{{- if include "orbiter.courier" . }}
user courier on PASSWORD resetchannels ~{*}:agenttrigger:events ~{*}:agenttrigger:*:poll ~{*}:agenttrigger:*:comments %R~{*}:agenttrigger:*:made:* -@all {{ $connection }} +xadd +xlen +memory|usage +expire +mget +hget +hgetall +hset +hdel (-@all +hsetnx +hset +hgetall +expire +xadd +xlen +memory|usage +sadd +srem +smembers ~{*}:notify:* ~notify:*)
{{- end }}
{{- range $namespace := $values.workers.namespaces }}
{{- $user := printf "chat-%s" $namespace }}
{{- $po := printf "worker:po:%s.*" $namespace }}
{{- $record := eq $namespace (include "orbiter.adoption.namespace" $) | ternary "[0-9-]*" (printf "%s:*" $namespace) }}
user {{ $user }} on PASSWORD resetchannels ~session:user:{{ $record }} -@all {{ $connection }} +exists +expire +get +set +hgetall (+xadd +xlen +watch ~{{ $po }}:input) (+xread +xrange +xrevrange +xlen +watch +hgetall +hget +hmget %R~{{ $po }}:output %R~{{ $po }}:state)
{{- end }}
{{- end }}

{{/* Whether the bundled Redis talks TLS, and nothing else then. */}}
{{- define "orbiter.redis.tls" -}}
{{- if and .Values.redis.tls.enabled (not .Values.redis.external.existingSecret) -}}true{{- end -}}
{{- end }}

{{/* The Secret with its certificate and key: yours, or the one that cert-manager writes. */}}
{{- define "orbiter.redis.tlsSecret" -}}
{{- .Values.redis.tls.existingSecret | default (printf "%s-tls" (include "orbiter.redis.name" .)) -}}
{{- end }}

{{/* Key of the CA's certificate, beside the URLs in each Secret that has some; empty: there is none. */}}
{{- define "orbiter.redis.caKey" -}}
{{- if .Values.redis.external.existingSecret -}}
{{- .Values.redis.external.caKey -}}
{{- else if .Values.redis.tls.enabled -}}
ca.crt
{{- end -}}
{{- end }}

{{- define "orbiter.redis.conf" -}}
bind * -::*
{{- if include "orbiter.redis.tls" . }}
# TLS only. Who may connect is said by passwords, so clients need no certificate.
port 0
tls-port 6379
tls-cert-file /etc/redis-tls/tls.crt
tls-key-file /etc/redis-tls/tls.key
tls-auth-clients no
{{- else }}
port 6379
{{- end }}
dir /data
aclfile /run/redis/users.acl
# The append-only file alone is the durable copy. What was answered is on the disk, also when the
# node dies; with everysec that would cost the last second.
appendonly yes
appendfsync always
save ""
# A full queue must refuse new work, never forget old work.
maxmemory {{ .Values.redis.maxMemory }}
maxmemory-policy noeviction
tcp-keepalive 60
# What is under way for clients counts beside that: nobody's unfinished request or unread reply may
# take the container's memory.
proto-max-bulk-len 64mb
client-query-buffer-limit 64mb
client-output-buffer-limit normal 128mb 64mb 60
maxmemory-clients 30%
# Who connects and says nothing is sent away, so that nobody can hold all places. A blocked read is
# not idle; what else our programs leave open they open again.
timeout 120
maxclients 40000
{{- end }}

{{/*
How Redis' container begins: passwords are in a Secret and rights in the ConfigMap, so that an upgrade
can change rights; the file that has both is in memory.
*/}}
{{- define "orbiter.redis.start" -}}
set -eu
umask 077
while read -r word name state password rules; do
  if [ "$password" = PASSWORD ]; then
    [ -s "/etc/redis-passwords/$name" ] || continue
    hash=$(sha256sum < "/etc/redis-passwords/$name")
    password="#${hash%% *}"
  fi
  printf '%s\n' "$word $name $state $password $rules"
done < /etc/redis/users.acl > /run/redis/users.acl
exec redis-server /etc/redis/redis.conf
{{- end }}

{{/* PONG and nothing else: while Redis still reads its file it answers LOADING. */}}
{{- define "orbiter.redis.ping" -}}
exec:
  {{- /* To itself: there is nobody whose certificate had to be looked at. */}}
  {{- $tls := eq (include "orbiter.redis.tls" .) "true" | ternary " --tls --insecure" "" }}
  command: [sh, -c, 'test "$(redis-cli{{ $tls }} --user operator --no-auth-warning ping)" = PONG']
{{- end }}
