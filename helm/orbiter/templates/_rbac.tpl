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
# Reads the profiles that tasks and sessions name. Who says what agents are is the namespace's affair.
- apiGroups: [orbiter.dev]
  resources: [agentprofiles]
  verbs: [list, watch]
# Reads what tasks may cost. Who says that is the namespace's owner.
- apiGroups: [orbiter.dev]
  resources: [agentbudgets]
  verbs: [get, list, watch]
# Keeps the profile with which a task has begun or a session is awake, where nobody can change it. It goes with them;
# that of a session also when it wakes with another one.
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, create, delete]
# Answers in the status, and nowhere else in the object. That of a budget is its ledger.
- apiGroups: [orbiter.dev]
  resources: [agenttasks/status, posessions/status, agentbudgets/status]
  verbs: [patch]
# One Job per attempt; deleting it is how an attempt is cancelled.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
# One Deployment per session: patched to wake it and let it sleep, replaced when its template changes,
# deleted with its Secret when no worker may run in the namespace any more.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, update, patch, delete]
# Why a pod does not start, or how it ended. Pods are made and removed by Jobs and
# Deployments.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# Why Kueue has not let a Job in, where Kueue is installed.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list]
# Prompts by promptFrom.configMapKeyRef.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
# What `kubectl describe` and `kubectl events` tell.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}

{{/* What the operator does with Secrets where workers run, when it makes Redis' users. */}}
{{- define "orbiter.operator.secretRules" -}}
# A Secret for each session, with its worker's Redis URL. A create cannot be bound to a name.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
# The URLs of the namespace's workers, front ends, producers and readers of transcripts. Who patches is
# answered with the whole object, so these four it can read; no others.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "orbiter.namespace.secrets" . | replace "," ", " }}]
  verbs: [patch]
{{- end }}

{{/* What it does to make a namespace with the label ready, and to take all of it away again. */}}
{{- define "orbiter.operator.namespaceRules" -}}
# Which namespaces have the label.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
# The workers' ServiceAccount. A create cannot be bound to a name; the list is of what is left to remove,
# and who watches learns that somebody has changed it.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [list, watch, create]
# The same, by its name.
- apiGroups: [""]
  resources: [serviceaccounts]
  resourceNames: [{{ .Values.workers.serviceAccountName }}]
  verbs: [patch, delete]
# The workers' NetworkPolicy.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, create]
# The same, by its name.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  resourceNames: [{{ .Values.workers.serviceAccountName }}]
  verbs: [patch, delete]
{{- end }}
