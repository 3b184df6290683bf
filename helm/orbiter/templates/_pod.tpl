{{/* What every component's pods have of the values: operator, server and Redis alike. */}}

{{/* Labels: yours, and those that select the pods, which nobody can change. Arguments: root, component, values. */}}
{{- define "orbiter.pod.labels" -}}
{{- merge (include "orbiter.selectorLabels" . | fromYaml) (.values.podLabels | default dict) | toYaml -}}
{{- end }}

{{/* Annotations of yours, each as a string. Arguments: values. */}}
{{- define "orbiter.pod.annotations" -}}
{{- range $key, $value := .values.podAnnotations }}
{{ $key }}: {{ $value | toString | quote }}
{{- end }}
{{- end }}

{{/* What is not null: Helm takes a null's default away, and leaves a null that has none. */}}
{{- define "orbiter.set" -}}
{{- $set := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $set $key $value -}}
{{- end -}}
{{- end -}}
{{- with $set -}}{{- toYaml . -}}{{- end -}}
{{- end }}

{{/* Where pods run, and what they may. Arguments: root, component, values, spread. */}}
{{- define "orbiter.pod.spec" -}}
{{- with include "orbiter.pullSecrets" .root }}
{{ . }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with include "orbiter.set" .values.podSecurityContext }}
securityContext: {{- . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- $selector := dict "matchLabels" (include "orbiter.selectorLabels" $ | fromYaml) }}
{{- range . }}
  {{- list (hasKey . "labelSelector" | ternary . (merge (dict "labelSelector" $selector) .)) | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "orbiter.container.security" -}}
{{- with include "orbiter.set" .values.securityContext }}
securityContext: {{- . | nindent 2 }}
{{- end }}
{{- end }}
