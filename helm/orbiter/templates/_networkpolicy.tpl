{{- define "orbiter.egress.dns" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
  to: {{- toYaml .Values.networkPolicy.dns | nindent 4 }}
{{- end }}

{{- define "orbiter.egress.redis" -}}
{{- if .Values.redis.external.existingSecret -}}
- ports:
    - {port: {{ .Values.redis.external.port }}, protocol: TCP}
    {{- with .Values.redis.external.sentinelPort }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- with .Values.redis.external.peers }}
  to: {{- toYaml . | nindent 4 }}
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

{{/* The store of artifacts, where the values say where it is. */}}
{{- define "orbiter.egress.store" -}}
{{- with .Values.artifacts -}}
{{- if and .enabled .peers -}}
- ports: [{port: {{ .port }}, protocol: TCP}]
  to: {{- toYaml .peers | nindent 4 }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The collector of traces. */}}
{{- define "orbiter.egress.collector" -}}
{{- with .Values.tracing -}}
{{- if .endpoint -}}
- ports: [{port: {{ .port }}, protocol: TCP}]
  {{- with .peers }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
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
{{ include "orbiter.egress.rules" (dict "root" $ "rules" .) }}
{{- end }}
{{- end }}

{{/*
Egress rules out of the values. Where one says "everywhere", that is without the API server: on a
managed cluster it may have a public address, and answers on 443. Arguments: root, rules.
*/}}
{{- define "orbiter.egress.rules" -}}
{{- $rules := deepCopy .rules -}}
{{- range $rule := $rules -}}
  {{- range $peer := $rule.to -}}
    {{- $block := $peer.ipBlock | default dict -}}
    {{- if has $block.cidr (list "0.0.0.0/0" "::/0") -}}
      {{- $closed := $block.except | default list -}}
      {{- range $.root.Values.networkPolicy.apiServerAddresses -}}
        {{- if eq (contains ":" .) (contains ":" $block.cidr) -}}
          {{- $closed = append $closed . -}}
        {{- end -}}
      {{- end -}}
      {{- with $closed -}}
        {{- $_ := set $block "except" (uniq .) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end }}
