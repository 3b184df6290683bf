{{/*
The Secrets that are made once, for `python -m orbiter_operator.make_secrets`; an empty list when all
of them are given.
*/}}
{{- define "orbiter.secrets.plan" -}}
{{- $plan := list -}}
{{- $home := .Release.Namespace -}}
{{- if not (or .Values.redis.external.existingSecret .Values.redis.auth.existingSecret) -}}
{{- $static := eq .Values.redis.users "Static" -}}
{{- $passwords := list "operator-password" "master-key" -}}
{{- if include "orbiter.webhooks" . -}}
{{- $passwords = concat $passwords (list "triggers-password" "receiver-password") -}}
{{- end -}}
{{- if include "orbiter.courier" . -}}
{{- $passwords = append $passwords "courier-password" -}}
{{- end -}}
{{- if $static -}}
{{- $passwords = list -}}
{{- range include "orbiter.redis.users" . | fromJsonArray -}}
{{- $passwords = append $passwords (printf "%s-password" .) -}}
{{- end -}}
{{- end -}}
{{- $labels := include "orbiter.labels" (dict "root" . "component" "redis") | fromYaml -}}
{{- $plan = append $plan (dict "namespace" $home "name" (include "orbiter.redis.authSecret" .) "labels" $labels "passwords" $passwords) -}}
{{- $labels = include "orbiter.labels" (dict "root" . "component" "worker") | fromYaml -}}
{{- $scheme := include "orbiter.redis.scheme" . -}}
{{- $inside := include "orbiter.redis.inside" . -}}
{{- /* Where the operator makes users it makes the Secrets with their URLs, too. */ -}}
{{- range $static | ternary .Values.workers.namespaces list -}}
{{- $texts := dict "developer-url" (printf "%s://developer:${developer-password}@%s" $scheme $inside) -}}
{{- $_ := set $texts "po-url" (printf "%s://po:${po-password}@%s" $scheme $inside) -}}
{{- /* Front ends are no pods of ours: the CA's certificate is beside their URL. */ -}}
{{- $_ := set $texts "chat-url" (printf "%s://chat-%s:${chat-%s-password}@%s" $scheme . . (include "orbiter.redis.address" $)) -}}
{{- $secret := dict "namespace" . "name" $.Values.workers.redisSecretName "labels" $labels "texts" $texts -}}
{{- if include "orbiter.redis.tls" $ -}}
{{- if $.Values.redis.tls.ca -}}
{{- $_ := set $texts "ca.crt" $.Values.redis.tls.ca -}}
{{- else -}}
{{- $_ := set $secret "files" (dict "ca.crt" "/etc/orbiter/redis/ca.crt") -}}
{{- end -}}
{{- end -}}
{{- $plan = append $plan $secret -}}
{{- end -}}
{{- /* Helm would delete that of an earlier version, which Jobs of before still read. */ -}}
{{- range $static | ternary list .Values.workers.namespaces -}}
{{- $plan = append $plan (dict "namespace" . "name" $.Values.workers.redisSecretName "found" true) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.server.enabled (eq .Values.server.auth "Token") (not .Values.server.token.existingSecret) -}}
{{- $labels := include "orbiter.labels" (dict "root" . "component" "server") | fromYaml -}}
{{- $plan = append $plan (dict "namespace" $home "name" (include "orbiter.server.tokenSecret" .) "labels" $labels "passwords" (list .Values.server.token.key)) -}}
{{- end -}}
{{- if and (include "orbiter.webhooks" .) (not .Values.triggers.webhooks.existingSecret) -}}
{{- $labels := include "orbiter.labels" (dict "root" . "component" "receiver") | fromYaml -}}
{{- $plan = append $plan (dict "namespace" $home "name" (include "orbiter.webhooks.secret" .) "labels" $labels "passwords" (list "master-key")) -}}
{{- end -}}
{{- toJson $plan -}}
{{- end }}

{{/* Everything about making them is there while it is done. Argument: weight. */}}
{{- define "orbiter.secrets.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
