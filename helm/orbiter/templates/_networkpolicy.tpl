{{- define "orbiter.egress.dns" -}}
# DNS, wherever the cluster runs it: in a pod, on the node, or on a link-local address.
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end }}

{{- define "orbiter.egress.redis" -}}
{{- if .Values.redis.external.existingSecret -}}
- ports:
    - {port: {{ .Values.redis.external.port }}, protocol: TCP}
    {{- with .Values.redis.external.sentinelPort }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- else -}}
- ports: [{port: 6379, protocol: TCP}]
  to:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace }}}
      podSelector:
        matchLabels: {{- include "orbiter.selectorLabels" (dict "root" . "component" "redis") | nindent 10 }}
{{- end -}}
{{- end }}

{{/* The API server, whose address the chart cannot know. */}}
{{- define "orbiter.egress.apiServer" -}}
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end }}

{{/* Models and what else agents reach. */}}
{{- define "orbiter.egress.agents" -}}
{{- $model := .Values.networkPolicy.modelServer -}}
{{- if $model.enabled -}}
- ports: [{port: {{ $model.port }}, protocol: TCP}]
  to:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ $model.namespace }}}
      podSelector:
        matchLabels: {{- toYaml $model.podLabels | nindent 10 }}
{{- end }}
{{- with .Values.networkPolicy.egress }}
{{ toYaml . }}
{{- end }}
{{- end }}
