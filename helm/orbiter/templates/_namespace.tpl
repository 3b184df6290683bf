{{/*
What a namespace of workers has, as a YAML list: the chart applies it in workers.namespaces, and the
operator, which also makes the Secrets, in each that workers.namespaceSelector selects. The latter are
told no namespace in their metadata. Arguments: root, namespace (empty: any), labels.
*/}}
{{- define "orbiter.namespace.objects" -}}
{{- $values := .root.Values -}}
- apiVersion: v1
  kind: ServiceAccount
  metadata:
    name: {{ $values.workers.serviceAccountName }}
    {{- with .namespace }}
    namespace: {{ . }}
    {{- end }}
    labels: {{- .labels | nindent 6 }}
  # Agents run arbitrary commands: they get no identity at the API server.
  automountServiceAccountToken: false
  {{- with include "orbiter.pullSecrets" .root }}
  {{- . | nindent 2 }}
  {{- end }}
{{- if $values.networkPolicy.enabled }}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata:
    name: {{ $values.workers.serviceAccountName }}
    {{- with .namespace }}
    namespace: {{ . }}
    {{- end }}
    labels: {{- .labels | nindent 6 }}
  spec:
    podSelector:
      matchLabels: {{- include "orbiter.worker.podLabels" .root | nindent 8 }}
    policyTypes: [Ingress, Egress]
    # Nobody calls a worker.
    {{- /* No `ingress: []`: the API server takes an empty list for a change at each apply. */}}
    egress:
      {{- include "orbiter.egress.dns" .root | nindent 6 }}
      {{- include "orbiter.egress.redis" .root | nindent 6 }}
      {{- with include "orbiter.egress.store" .root }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with include "orbiter.egress.agents" .root | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with get $values.networkPolicy.egressByNamespace .egressOf }}
      {{- include "orbiter.egress.rules" (dict "root" $.root "rules" .) | nindent 6 }}
      {{- end }}
{{- end }}
{{- end }}

{{/* The labels by which a namespace becomes one of workers, as k=v,k=v; empty: none does. */}}
{{- define "orbiter.namespaceSelector" -}}
{{- $labels := .Values.workers.namespaceSelector.matchLabels | default dict -}}
{{- $terms := list -}}
{{- range $key := keys $labels | sortAlpha -}}
{{- $terms = append $terms (printf "%s=%s" $key (get $labels $key)) -}}
{{- end -}}
{{- join "," $terms -}}
{{- end }}

{{/* Namespaces that the operator watches, as a JSON list; an empty one: all, since any may get the label. */}}
{{- define "orbiter.watched" -}}
{{- $listed := ternary list .Values.workers.namespaces (ne (include "orbiter.namespaceSelector" .) "") -}}
{{- .Values.watchNamespaces | default $listed | toJson -}}
{{- end }}

{{/* Whether a namespace that loses the label needs a policy of the operator's to reach Redis until its last worker has ended. */}}
{{- define "orbiter.namespace.redisPolicy" -}}
{{- if and .Values.networkPolicy.enabled (not .Values.redis.external.existingSecret) (include "orbiter.namespaceSelector" .) -}}yes{{- end -}}
{{- end }}

{{- define "orbiter.namespace.redisPolicyName" -}}{{ include "orbiter.redis.name" . }}-former-tenants{{- end }}

{{/* The files in which the operator finds these objects. */}}
{{- define "orbiter.namespace.files" -}}
{{- $labels := include "orbiter.selectorLabels" (dict "root" . "component" "worker") -}}
namespace.json: {{ include "orbiter.namespace.objects" (dict "root" . "labels" $labels "egressOf" "") | fromYamlArray | toJson | quote }}
{{- range $namespace := keys .Values.networkPolicy.egressByNamespace | sortAlpha }}
namespace-{{ $namespace }}.json: {{ include "orbiter.namespace.objects" (dict "root" $ "labels" $labels "egressOf" $namespace) | fromYamlArray | toJson | quote }}
{{- end }}
{{- if include "orbiter.namespace.redisPolicy" . }}
redis-policy.json: {{ include "orbiter.namespace.policyOfRedis" . | fromYaml | toJson | quote }}
{{- end }}
{{- end }}

{{- define "orbiter.namespace.redisPolicyRole" -}}{{ include "orbiter.operator.name" . }}-redis-policy{{- end }}

{{/*
The policy with which the operator lets in those that leave: it fills in their names and its owner's uid. The owner is
the Role that lets it write this: without the selector both go, whoever is at work.
*/}}
{{- define "orbiter.namespace.policyOfRedis" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "orbiter.namespace.redisPolicyName" . }}
  namespace: {{ .Release.Namespace }}
  ownerReferences:
    - {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, name: {{ include "orbiter.namespace.redisPolicyRole" . }}}
  labels: {{- include "orbiter.selectorLabels" (dict "root" . "component" "redis") | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "orbiter.selectorLabels" (dict "root" . "component" "redis") | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
    - ports: [{port: 6379, protocol: TCP}]
      from:
        - namespaceSelector:
            matchExpressions:
              - {key: kubernetes.io/metadata.name, operator: In, values: []}
          podSelector:
            matchLabels: {{- include "orbiter.worker.podLabels" . | nindent 14 }}
{{- end }}

{{/*
Secrets that the operator puts there, with the URLs of developer workers, front ends, producers and readers of
transcripts. Not
under workers.redisSecretName: what an earlier version has begun still reads its own URL there.
*/}}
{{- define "orbiter.namespace.secrets" -}}orbiter-developer,orbiter-chat,orbiter-producer,orbiter-transcript{{- end }}

{{/* The Secret with the URL of developer workers. */}}
{{- define "orbiter.worker.secret" -}}
{{- eq .Values.redis.users "Managed" | ternary "orbiter-developer" .Values.workers.redisSecretName -}}
{{- end }}
