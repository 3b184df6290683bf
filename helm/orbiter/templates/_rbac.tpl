{{/* What the operator does in a namespace it watches, verb by verb. Secrets are not among it. */}}
{{- define "orbiter.operator.rules" -}}
# Reads tasks; creates those it adopts from the queue; deletes those whose time to live is over.
- apiGroups: [orbiter.dev]
  resources: [agenttasks]
  verbs: [get, list, watch, create, delete]
# Reads sessions. Nobody but their users creates or deletes them.
- apiGroups: [orbiter.dev]
  resources: [posessions]
  verbs: [get, list, watch]
# Answers in the status, and nowhere else in the object.
- apiGroups: [orbiter.dev]
  resources: [agenttasks/status, posessions/status]
  verbs: [patch]
# One Job per attempt; deleting it is how an attempt is cancelled.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
# One Deployment per session, scaled between 0 and 1.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
# Why a pod does not start, or how it ended. Pods are made and removed by Jobs and Deployments.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
# Prompts by promptFrom.configMapKeyRef.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
# What `kubectl describe` and `kubectl events` tell; a repeated event is counted by a patch.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
