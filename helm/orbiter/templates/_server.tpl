{{- define "orbiter.server.name" -}}{{ include "orbiter.fullname" . }}-server{{- end }}

{{- define "orbiter.server.tokenSecret" -}}
{{- .Values.server.token.existingSecret | default (printf "%s-token" (include "orbiter.server.name" .)) -}}
{{- end }}

{{/* File name -> agent file. An agent has the name it is served by unless it says another; a swarm has none. */}}
{{- define "orbiter.server.agents" -}}
{{- range $name, $agent := . }}
{{ $name }}.yaml: |
  {{- hasKey $agent "agents" | ternary $agent (merge dict $agent (dict "name" $name)) | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the server does at the API server: it looks, and never at anything but these. */}}
{{- define "orbiter.server.rules" -}}
# The lists of tasks and sessions on the page: read once, then followed while somebody looks.
- apiGroups: [orbiter.dev]
  resources: [agenttasks, posessions]
  verbs: [list, watch]
{{- if .Values.server.transcripts }}
# How who reads a namespace's transcripts reaches Redis.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [orbiter-transcript]
  verbs: [get]
{{- end }}
{{- end }}

{{/* How it judges people: by the API server, which keeps nothing of what it is asked. */}}
{{- define "orbiter.server.reviewRules" -}}
# Whose a token is.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
# Whether they may see or do something.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}

{{/* What people need who talk to the server's agents; nothing of the cluster is behind it. */}}
{{- define "orbiter.server.userRules" -}}
# To begin runs, chats and tasks on the server, and to see one's own.
- apiGroups: [orbiter.dev]
  resources: [agents]
  verbs: [use]
{{- end }}
