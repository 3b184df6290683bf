{{- define "orbiter.triggers.name" -}}{{ include "orbiter.fullname" . }}-triggers{{- end }}

{{/* What the triggers' program does in a namespace that the operator watches, verb by verb. */}}
{{- define "orbiter.triggers.rules" -}}
# Reads triggers. Who says what makes tasks is the namespace's affair.
- apiGroups: [orbiter.dev]
  resources: [agenttriggers]
  verbs: [get, list, watch]
# Says what it has done, and what it has not.
- apiGroups: [orbiter.dev]
  resources: [agenttriggers/status]
  verbs: [patch]
# Makes the tasks; deletes those of its own beyond historyLimits, and for concurrencyPolicy Replace.
- apiGroups: [orbiter.dev]
  resources: [agenttasks]
  verbs: [get, list, watch, create, delete]
{{- if include "orbiter.webhooks" . }}
# Publishes the addresses and secrets of the webhooks, in one Secret of each namespace: an apply, which is a
# patch and, of one that is not there, a create that is bound to no name.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [orbiter-webhooks]
  verbs: [patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}
{{- end }}

{{/* Whether events are received; and the Secret with the key that their secrets follow from. */}}
{{- define "orbiter.webhooks" -}}
{{- if and .Values.triggers.enabled .Values.triggers.webhooks.enabled -}}true{{- end -}}
{{- end }}
{{- define "orbiter.webhooks.secret" -}}
{{- .Values.triggers.webhooks.existingSecret | default (printf "%s-webhooks-key" (include "orbiter.fullname" .)) -}}
{{- end }}
{{- define "orbiter.receiver.name" -}}{{ include "orbiter.fullname" . }}-receiver{{- end }}

{{/* Whether the courier is installed, and what it does in a namespace that the operator watches. */}}
{{- define "orbiter.courier" -}}
{{- if and .Values.triggers.enabled .Values.triggers.courier.enabled -}}true{{- end -}}
{{- end }}
{{- define "orbiter.courier.name" -}}{{ include "orbiter.fullname" . }}-courier{{- end }}
{{/* A courier that could do nothing is refused, with the words that would let it. */}}
{{- define "orbiter.courier.validate" -}}
{{- $courier := .Values.triggers.courier -}}
{{- $webhooks := .Values.triggers.webhooks.enabled -}}
{{- if include "orbiter.courier" . -}}
{{- if and $courier.repositories (not $webhooks) -}}
{{- fail (printf "triggers.courier.repositories is %s and triggers.webhooks.enabled is false: without it the controller takes no events, and nobody would make tasks of what a poll finds. Add --set triggers.webhooks.enabled=true, or leave triggers.courier.repositories out" ($courier.repositories | toJson)) -}}
{{- end -}}
{{- if not (or $webhooks $courier.notify.enabled) -}}
{{- fail "triggers.courier.enabled is true, triggers.webhooks.enabled and triggers.courier.notify.enabled are false: the courier would have nothing to do. For GitHub add --set triggers.webhooks.enabled=true, for notifications --set triggers.courier.notify.enabled=true" -}}
{{- end -}}
{{- if not (or $courier.github.existingSecret (and $courier.notify.enabled (not $courier.repositories))) -}}
{{- $otherwise := ternary "leave triggers.courier.repositories out" "for notifications alone add --set triggers.courier.notify.enabled=true" $courier.notify.enabled -}}
{{- fail (printf "triggers.courier.enabled is true and triggers.courier.github.existingSecret is \"\": the courier would have no credential for %s. Make a Secret, kubectl -n %s create secret generic github-app --from-file=token=FILE, and add --set triggers.courier.github.existingSecret=github-app; or %s" $courier.github.url .Release.Namespace $otherwise) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "orbiter.courier.rules" -}}
# Sees which repositories are heard, and how the tasks do that came of it.
- apiGroups: [orbiter.dev]
  resources: [agenttriggers]
  verbs: [get, list, watch]
- apiGroups: [orbiter.dev]
  resources: [agenttasks]
  verbs: [get, list, watch{{ if .Values.triggers.courier.answers }}, patch{{ end }}]
{{- with .Values.triggers.courier.notify }}
{{- if .enabled }}
# Tells of sessions and of budgets, too.
- apiGroups: [orbiter.dev]
  resources: [posessions, agentbudgets]
  verbs: [get, list, watch]
# Signs what it sends to receivers of notifications: Secrets of these names, and no others.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ toJson .secretNames }}
  verbs: [get]
# Says where people look that a receiver was not told.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
{{- end }}
{{- end }}

{{/* Redis in the name of one of the users. Arguments: root, user. */}}
{{- define "orbiter.triggers.redisEnv" -}}
{{- $root := .root -}}
{{- with $root.Values.redis.external.existingSecret -}}
- name: ORBITER_REDIS_URL
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: {{ $.user }}-url}
{{- else -}}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ include "orbiter.redis.authSecret" $root }}, key: {{ $.user }}-password}
- name: ORBITER_REDIS_URL
  value: {{ printf "%s://%s:$(REDIS_PASSWORD)@%s" (include "orbiter.redis.scheme" $root) $.user (include "orbiter.redis.inside" $root) }}
{{- end }}
{{- end }}

{{/* The same, and the master key of webhooks. */}}
{{- define "orbiter.webhooks.env" -}}
{{- $root := .root -}}
{{ include "orbiter.triggers.redisEnv" . }}
- name: ORBITER_WEBHOOK_MASTER_KEY
  valueFrom:
    secretKeyRef: {name: {{ include "orbiter.webhooks.secret" $root }}, key: master-key}
- {name: ORBITER_WEBHOOK_GENERATION, value: {{ $root.Values.triggers.webhooks.generation | quote }}}
{{- end }}

{{/* Where the certificate of Redis' CA is, for pods that talk to it in such a name. */}}
{{- define "orbiter.webhooks.caMount" -}}
{{- if and (or (include "orbiter.webhooks" .) (include "orbiter.courier" .)) (include "orbiter.redis.caKey" .) }}
- {name: redis-ca, mountPath: /etc/orbiter/redis, readOnly: true}
{{- end }}
{{- end }}
{{- define "orbiter.webhooks.caVolume" -}}
{{- $key := include "orbiter.redis.caKey" . }}
{{- if and (or (include "orbiter.webhooks" .) (include "orbiter.courier" .)) $key }}
- name: redis-ca
  {{- if and (include "orbiter.redis.tls" .) .Values.redis.tls.ca }}
  configMap: {name: {{ include "orbiter.redis.name" . }}-ca}
  {{- else }}
  secret:
    secretName: {{ .Values.redis.external.existingSecret | default (include "orbiter.redis.tlsSecret" .) }}
    items: [{key: {{ $key }}, path: ca.crt}]
  {{- end }}
{{- end }}
{{- end }}
