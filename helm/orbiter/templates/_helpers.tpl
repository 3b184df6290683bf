{{/* Base of all names in the release's namespace: the release's name, with the chart's in it. */}}
{{- define "orbiter.fullname" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $chart .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $chart | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "orbiter.operator.name" -}}{{ include "orbiter.fullname" . }}-operator{{- end }}
{{- define "orbiter.redis.name" -}}{{ include "orbiter.fullname" . }}-redis{{- end }}

{{/* Labels that select the pods of a component; they never change. Arguments: root, component. */}}
{{- define "orbiter.selectorLabels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of everything the chart makes. Arguments: root, component. */}}
{{- define "orbiter.labels" -}}
{{ include "orbiter.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Labels the operator gives to the pods of its workers. */}}
{{- define "orbiter.worker.podLabels" -}}
app.kubernetes.io/name: agent-worker
app.kubernetes.io/managed-by: orbiter
{{- end }}

{{/* Reference of one of the project's images. Arguments: root, image. */}}
{{- define "orbiter.image" -}}
{{- $image := .image -}}
{{- if not (contains "/" $image) -}}
{{- $image = printf "%s/%s:%s" .root.Values.images.registry $image .root.Values.images.tag -}}
{{- end -}}
{{- include "orbiter.mirrored" (dict "root" .root "image" $image) -}}
{{- end }}

{{/* The same image at global.imageRegistry, if there is one. A registry has a dot or a port in its name, or is localhost. Arguments: root, image. */}}
{{- define "orbiter.mirrored" -}}
{{- $registry := (.root.Values.global).imageRegistry -}}
{{- if $registry -}}
{{- printf "%s/%s" $registry (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" .image "") -}}
{{- else -}}
{{- .image -}}
{{- end -}}
{{- end }}

{{/* Agent type -> image reference, as JSON. */}}
{{- define "orbiter.worker.images" -}}
{{- $images := dict -}}
{{- range $type, $image := .Values.images.workers -}}
{{- $_ := set $images $type (include "orbiter.image" (dict "root" $ "image" $image)) -}}
{{- end -}}
{{- toJson $images -}}
{{- end }}

{{/* Where adopted messages become AgentTasks; empty: nowhere. */}}
{{- define "orbiter.adoption.namespace" -}}
{{- if .Values.adoption.enabled -}}
{{- .Values.adoption.namespace | default (first (.Values.workers.namespaces | default list)) | default "" -}}
{{- end -}}
{{- end }}

{{/* Secrets in the release's namespace that no worker may have, the rendered chart's among them. */}}
{{- define "orbiter.protectedSecrets" -}}
{{- $names := list (printf "sh.helm.release.v1.%s.*" .Release.Name) "orbiter-session-*" -}}
{{- /* Also where events are not received any more: the Secrets stay. */ -}}
{{- $names = concat $names (list "orbiter-webhooks" (include "orbiter.webhooks.secret" .)) -}}
{{- $names = concat $names (list .Values.workers.redisSecretName) (include "orbiter.namespace.secrets" . | splitList ",") -}}
{{- with .Values.triggers.courier.github.existingSecret -}}
{{- $names = append $names . -}}
{{- end -}}
{{- /* An agent that had the key could tell receivers anything. */ -}}
{{- if .Values.triggers.courier.notify.enabled -}}
{{- $names = concat $names .Values.triggers.courier.notify.secretNames -}}
{{- end -}}
{{- with .Values.redis.external.existingSecret -}}
{{- $names = append $names . -}}
{{- else -}}
{{- $names = append $names (include "orbiter.redis.authSecret" .) -}}
{{- if include "orbiter.redis.tls" $ -}}
{{- $names = append $names (include "orbiter.redis.tlsSecret" $) -}}
{{- end -}}
{{- end -}}
{{- if .Values.server.enabled -}}
{{- $names = append $names (include "orbiter.server.tokenSecret" .) -}}
{{- with .Values.server.tls.existingSecret -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- with (.Values.tracing).headersSecretName -}}
{{- $names = append $names . -}}
{{- end -}}
{{- with .Values.artifacts -}}
{{- $names = append $names .credentialsSecretName -}}
{{- end -}}
{{- join "," $names -}}
{{- end }}

{{- define "orbiter.pullSecrets" -}}
{{- with concat .Values.images.pullSecrets ((.Values.global).imagePullSecrets | default list) | uniq -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Mistakes that only show when two settings are seen together. */}}
{{- define "orbiter.validate" -}}
{{- $watched := .Values.watchNamespaces -}}
{{- if $watched -}}
{{- range .Values.workers.namespaces -}}
{{- if not (has . $watched) -}}
{{- fail (printf "workers.namespaces has %q, which the operator does not watch: add it to watchNamespaces, or leave watchNamespaces empty" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.redis -}}
{{- if and .tls.enabled .external.existingSecret -}}
{{- fail "redis.tls is the bundled Redis' and redis.external.existingSecret names another: say TLS in its URL, rediss://, and leave redis.tls.enabled off" -}}
{{- end -}}
{{- if and .tls.enabled (not .tls.existingSecret) (not .tls.certManager.issuerRef.name) -}}
{{- fail "redis.tls.enabled without a certificate: name a Secret in redis.tls.existingSecret, or an issuer in redis.tls.certManager.issuerRef" -}}
{{- end -}}
{{- if and .tls.existingSecret .tls.certManager.issuerRef.name -}}
{{- fail "redis.tls.existingSecret and redis.tls.certManager.issuerRef both say where the certificate comes from: leave one of them out" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.redis.auth.existingSecret .Values.redis.external.existingSecret -}}
{{- fail "redis.auth.existingSecret is for the bundled Redis and redis.external.existingSecret names another, whose URL has the password: leave redis.auth.existingSecret out" -}}
{{- end -}}
{{- with .Values.artifacts -}}
{{- if and .enabled (hasPrefix "http://" .endpoint) (not .insecure) -}}
{{- fail (printf "artifacts.endpoint %s has no TLS, so that keys and files could be read on the way: write https://, or set artifacts.insecure=true" .endpoint) -}}
{{- end -}}
{{- end -}}
{{- with .Values.server -}}
{{- if and .enabled (not .agents) (not .agentFiles.files) -}}
{{- fail "server.enabled without an agent: describe one in server.agents, or name files in server.agentFiles" -}}
{{- end -}}
{{- if and .agentFiles.files (not .agentFiles.configMap) -}}
{{- fail "server.agentFiles.files are keys of a ConfigMap: name it in server.agentFiles.configMap" -}}
{{- end -}}
{{- end -}}
{{- with .Values.server -}}
{{- if and .enabled .ingress.enabled (not .ingress.hosts) -}}
{{- fail "server.ingress.enabled without a host: name one in server.ingress.hosts, which everybody else's requests at the controller then keep" -}}
{{- end -}}
{{- if and .enabled .httpRoute.enabled (not .httpRoute.parentRefs) -}}
{{- fail "server.httpRoute.enabled without a Gateway: name it in server.httpRoute.parentRefs" -}}
{{- end -}}
{{- end -}}
{{- include "orbiter.courier.validate" . -}}
{{- $selector := include "orbiter.namespaceSelector" . -}}
{{- if and $selector (eq .Values.redis.users "Static") -}}
{{- fail "workers.namespaceSelector with redis.users=Static: nobody would make the Secrets of a namespace that gets the label; leave redis.users at Managed, or list the namespaces in workers.namespaces" -}}
{{- end -}}
{{- if and $selector .Values.watchNamespaces -}}
{{- fail "workers.namespaceSelector and watchNamespaces: a namespace that gets the label would not be watched; leave watchNamespaces empty, or list the namespaces in workers.namespaces" -}}
{{- end -}}
{{- range $namespace := keys .Values.networkPolicy.egressByNamespace | sortAlpha -}}
{{- if not (or $selector (has $namespace $.Values.workers.namespaces)) -}}
{{- fail (printf "networkPolicy.egressByNamespace has %q, where no worker can run: add it to workers.namespaces" $namespace) -}}
{{- end -}}
{{- end -}}
{{- $adopts := include "orbiter.adoption.namespace" . -}}
{{- range .Values.workers.namespaces -}}
{{- if and $adopts (ne . $adopts) (regexMatch "^[0-9]" .) -}}
{{- fail (printf "workers.namespaces has %q, and adoption.namespace is %q, whose chat front ends keep the records session:user:NUMBER: give it another name, or set adoption.enabled=false" . $adopts) -}}
{{- end -}}
{{- end -}}
{{- with include "orbiter.adoption.namespace" . -}}
{{- if not (or $selector (has . $.Values.workers.namespaces)) -}}
{{- fail (printf "adoption.namespace is %q, where no worker can run: add it to workers.namespaces" .) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What is there while `helm test` runs; of a failed one, the pod with its log stays. Argument: weight. */}}
{{- define "orbiter.smokeTest.hook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
