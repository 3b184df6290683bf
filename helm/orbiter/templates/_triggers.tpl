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
{{- end }}
