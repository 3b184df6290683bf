{{/*
Where an admission policy holds: in the workers' namespaces, by name and by label. A selector cannot say
"or", so these are two bindings. Arguments: root, name (of the policy), labels.
*/}}
{{- define "orbiter.admissionBindings" -}}
{{- $root := .root }}
{{- if $root.Values.workers.namespaces }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- .labels | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: In
          values: {{ toJson $root.Values.workers.namespaces }}
{{- end }}
{{- if include "orbiter.namespaceSelector" $root }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}-labelled
  labels: {{- .labels | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {{- toYaml $root.Values.workers.namespaceSelector | nindent 6 }}
{{- end }}
{{- end }}
