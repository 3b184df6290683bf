{{/* What the operator does in a namespace it watches, verb by verb. Secrets are not among it. */}}
{{- define "orbiter.operator.rules" -}}
# Reads sessions. Deleting one is its user's affair.
- apiGroups: [orbiter.dev]
  resources: [posessions]
  verbs: [get, list, watch]
# Reads tasks; creates those it adopts from the queue; deletes those whose time to live is over.
- apiGroups: [orbiter.dev]
  resources: [agenttasks]
  verbs: [get, list, watch, create, delete]
# Answers in the status, and nowhere else in the object.
- apiGroups: [orbiter.dev]
  resources: [agenttasks/status, posessions/status]
  verbs: [patch]
# One Job per attempt; deleting it is how an attempt is cancelled.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
# One Deployment per session: patched to wake it and let it sleep, replaced when its template changes.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, update, patch]
# Why a pod does not start, or how it ended. Pods are made and removed by Jobs and
# Deployments.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# Prompts by promptFrom.configMapKeyRef.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
# What `kubectl describe` and `kubectl events` tell.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
