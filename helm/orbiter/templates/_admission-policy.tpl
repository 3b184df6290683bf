{{/*
What a podTemplate may say, in CEL. files/pod-template.json is the operator's own table
(operator/src/orbiter_operator/pods/allowlist.py), in which `workers.podTemplate.allow` adds
fields; the sentences are those of allowlist.py beside it.
*/}}

{{/* The table with the chart's further fields in it, as JSON. */}}
{{- define "orbiter.podTemplate.table" -}}
{{- $file := .Files.Get "files/pod-template.json" | fromJson -}}
{{- $table := $file.fields -}}
{{- range .Values.workers.podTemplate.allow -}}
  {{- $node := $table -}}
  {{- $segments := regexFindAll "\\[\\w*\\]|[^.\\[\\]]+" . -1 -}}
  {{- $last := sub (len $segments) 1 | int -}}
  {{- $before := "" -}}
  {{- range $position, $segment := $segments -}}
    {{- if kindIs "map" $node -}}
      {{- $inner := get $node $segment -}}
      {{- if eq $position $last -}}
        {{- $_ := set $node $segment true -}}
      {{- else if kindIs "bool" $inner -}}
        {{- $node = $inner -}}
      {{- else -}}
        {{- if or (not (kindIs "map" $inner)) (hasKey $inner "one of") (hasKey $inner "none of") (hasKey $inner "never") -}}
          {{- $inner = dict -}}
          {{- $_ := set $node $segment $inner -}}
        {{- end -}}
        {{- $key := get $file.mergeKeys $before -}}
        {{- if and $key (hasPrefix "[" $segment) (not (hasKey $inner $key)) -}}
          {{- $_ := set $inner $key true -}}
        {{- end -}}
        {{- $node = $inner -}}
      {{- end -}}
    {{- end -}}
    {{- $before = $segment -}}
  {{- end -}}
{{- end -}}
{{- toJson $table -}}
{{- end }}

{{/* How many items a list may have that the table goes into. */}}
{{- define "orbiter.podTemplate.maxItems" -}}
{{- (.Files.Get "files/pod-template.json" | fromJson).maxItems -}}
{{- end }}

{{/*
Whether a value is what the table says, in CEL.
Arguments: root, node (of the table), value (CEL), depth.
*/}}
{{- define "orbiter.podTemplate.valid" -}}
{{- $root := .root -}}{{- $node := .node -}}{{- $value := .value -}}
{{- $depth := add1 .depth | int -}}
{{- $item := printf "i%d" .depth -}}{{- $name := printf "k%d" .depth -}}
{{- if kindIs "bool" $node -}}
true
{{- else if hasKey $node "never" -}}
false
{{- else if hasKey $node "one of" -}}
({{ $value }} in {{ include "orbiter.podTemplate.values" (dict "root" $root "name" (get $node "one of")) }})
{{- else if hasKey $node "none of" -}}
{{- $test := include "orbiter.podTemplate.reserved" (dict "root" $root "node" $node "value" $name) -}}
(type({{ $value }}) == map ? {{ $value }}.all({{ $name }}, !({{ $test }})) : [{{ $value }}].all({{ $name }}, !({{ $test }})))
{{- else if or (hasKey $node "[]") (hasKey $node "[worker]") -}}
{{- $each := "false" -}}
{{- if hasKey $node "[]" -}}
{{- $each = include "orbiter.podTemplate.valid" (dict "root" $root "node" (get $node "[]") "value" $item "depth" $depth) -}}
{{- end -}}
{{- if hasKey $node "[worker]" -}}
{{- $worker := include "orbiter.podTemplate.valid" (dict "root" $root "node" (get $node "[worker]") "value" $item "depth" $depth) -}}
{{- $each = printf "(type(%s) == map && 'name' in %s && %s['name'] == 'worker' ? %s : %s)" $item $item $item $worker $each -}}
{{- end -}}
({{ $value }} == null || type({{ $value }}) == list && size({{ $value }}) <= {{ include "orbiter.podTemplate.maxItems" $root }} && {{ $value }}.all({{ $item }}, {{ $each }}))
{{- else -}}
({{ $value }} == null || type({{ $value }}) == map && {{ $value }}.all({{ $name }}, {{ $name }} in {{ keys $node | sortAlpha | toJson }})
{{- range $field, $inner := $node -}}
{{- if not (kindIs "bool" $inner) }} && (!({{ squote $field }} in {{ $value }}) || {{ include "orbiter.podTemplate.valid" (dict "root" $root "node" $inner "value" (printf "%s['%s']" $value $field) "depth" $depth) }})
{{- end -}}
{{- end -}})
{{- end -}}
{{- end }}

{{/*
What is wrong with a value, as a list of problems: [kind, path, and what the sentence needs].
Arguments: those of valid; path (CEL), and level (the path as the chart has it). Asked only of what is
not valid.
*/}}
{{- define "orbiter.podTemplate.problems" -}}
{{- $root := .root -}}{{- $node := .node -}}{{- $value := .value -}}
{{- $path := .path -}}{{- $level := .level -}}{{- $depth := .depth -}}
{{- $next := add1 $depth | int -}}
{{- $item := printf "i%d" $depth -}}{{- $name := printf "k%d" $depth -}}
{{- if kindIs "bool" $node -}}
[]
{{- else if hasKey $node "never" -}}
[['type', {{ $path }}, {{ printf ": %s; leave it out" (get $node "never") | toJson }}]]
{{- else if hasKey $node "one of" -}}
{{- $where := get $node "one of" -}}
({{ $value }} in {{ include "orbiter.podTemplate.values" (dict "root" $root "name" $where) }} ? [] : [['value', {{ $path }}, {{ squote $where }}, (type({{ $value }}) == string ? string({{ $value }}) : '')]])
{{- else if hasKey $node "none of" -}}
{{- $test := include "orbiter.podTemplate.reserved" (dict "root" $root "node" $node "value" $name) -}}
{{- $why := get $node "why" | toJson -}}
(type({{ $value }}) == map ? {{ $value }}.filter({{ $name }}, {{ $test }}).map({{ $name }}, ['name', {{ $path }} + '[' + string({{ $name }}) + ']', string({{ $value }}[{{ $name }}]), {{ $why }}]) : [{{ $value }}].filter({{ $name }}, {{ $test }}).map({{ $name }}, ['name', {{ $path }}, string({{ $name }}), {{ $why }}]))
{{- else if or (hasKey $node "[]") (hasKey $node "[worker]") -}}
{{- $max := include "orbiter.podTemplate.maxItems" $root -}}
{{- $label := printf "(type(%s) == map && 'name' in %s && type(%s['name']) == string ? string(%s['name']) : '')" $item $item $item $item -}}
{{- $of := include "orbiter.cel.append" (dict "text" $path "more" "[]") -}}
{{- $items := get $node "[]" | default dict -}}
{{- if or (hasKey $node "[worker]") (and (kindIs "map" $items) (hasKey $items "name")) -}}
{{- $of = printf "%s + %s + ']'" (include "orbiter.cel.append" (dict "text" $path "more" "[")) $label -}}
{{- end -}}
{{- $each := printf "[['field', %s, %s, '']]" $of (squote $level) -}}
{{- if hasKey $node "[]" -}}
{{- $each = include "orbiter.podTemplate.problems" (dict "root" $root "node" (get $node "[]") "value" $item "path" $of "level" (printf "%s[]" $level) "depth" $next) -}}
{{- end -}}
{{- if hasKey $node "[worker]" -}}
{{- $worker := include "orbiter.podTemplate.problems" (dict "root" $root "node" (get $node "[worker]") "value" $item "path" (include "orbiter.cel.append" (dict "text" $path "more" "[worker]")) "level" (printf "%s[worker]" $level) "depth" $next) -}}
{{- $each = printf "(%s == 'worker' ? %s : %s)" $label $worker $each -}}
{{- end -}}
(type({{ $value }}) == list ? (size({{ $value }}) > {{ $max }} ? [['type', {{ $path }}, ' has more than {{ $max }} items; write fewer']] : ({{ $value }}.map({{ $item }}, {{ $each }}).filter({{ $item }}, size({{ $item }}) > 0) + [[]])[0]) : {{ $value }} == null ? [] : [['type', {{ $path }}, ' is not a list; write items']])
{{- else -}}
{{- $known := keys $node | sortAlpha | toJson -}}
(type({{ $value }}) == map ? (size({{ $value }}) > 200 ? [] : {{ $value }}.filter({{ $name }}, !({{ $name }} in {{ $known }}))).map({{ $name }}, ['field', {{ if $level }}{{ include "orbiter.cel.append" (dict "text" $path "more" ".") }} + {{ end }}string({{ $name }}), {{ squote $level }}, string({{ $name }})] + {{ $known }})
{{- range $field, $inner := $node -}}
{{- if not (kindIs "bool" $inner) -}}
{{- $more := ternary (printf ".%s" $field) $field (ne $level "") }} + ({{ squote $field }} in {{ $value }} ? {{ include "orbiter.podTemplate.problems" (dict "root" $root "node" $inner "value" (printf "%s['%s']" $value $field) "path" (include "orbiter.cel.append" (dict "text" $path "more" $more)) "level" (printf "%s%s" $level $more) "depth" $next) }} : [])
{{- end -}}
{{- end }} : {{ $value }} == null ? [] : [['type', {{ $path }}, ' is not an object; write fields']])
{{- end -}}
{{- end }}

{{/* CEL: whether a name is reserved. Arguments: root, node (of the table), value (CEL). */}}
{{- define "orbiter.podTemplate.reserved" -}}
{{- $patterns := get .node "none of" -}}
{{- if kindIs "string" $patterns -}}
{{- $patterns = include "orbiter.podTemplate.ourSecrets" .root | fromJsonArray -}}
{{- end -}}
type({{ .value }}) == string && ({{ include "orbiter.cel.matches" (dict "value" .value "patterns" $patterns) }})
{{- end }}

{{/* Names of Orbiter's own Secrets, as JSON; NAME* is a beginning. */}}
{{- define "orbiter.podTemplate.ourSecrets" -}}
{{- include "orbiter.protectedSecrets" . | splitList "," | toJson -}}
{{- end }}

{{/* CEL: a text with more behind it. Arguments: text (CEL), more. */}}
{{- define "orbiter.cel.append" -}}
{{- if hasSuffix "'" .text -}}{{ trimSuffix "'" .text }}{{ .more }}'{{- else -}}{{ .text }} + '{{ .more }}'{{- end -}}
{{- end }}

{{/* CEL: whether a text is one of the names; NAME* is a beginning. Arguments: value, patterns. */}}
{{- define "orbiter.cel.matches" -}}
{{- $value := .value -}}{{- $exact := list -}}{{- $tests := list -}}
{{- range .patterns -}}
{{- if hasSuffix "*" . -}}
{{- $tests = append $tests (printf "string(%s).startsWith(%s)" $value (trimSuffix "*" . | squote)) -}}
{{- else -}}
{{- $exact = append $exact . -}}
{{- end -}}
{{- end -}}
{{- prepend $tests (printf "%s in %s" $value (toJson $exact)) | join " || " -}}
{{- end }}

{{/* One of the chart's lists of values, in CEL, which has texts and numbers in one map as dyn only. */}}
{{- define "orbiter.podTemplate.values" -}}
{{- $found := .root.Values -}}
{{- range splitList "." .name -}}{{- $found = get $found . -}}{{- end -}}
{{- if eq .name "workers.allowedServiceAccountNames" -}}
{{- $found = prepend $found .root.Values.workers.serviceAccountName -}}
{{- end -}}
{{- $items := list -}}
{{- range $found -}}
{{- if kindIs "map" . -}}
{{- $fields := list -}}
{{- range $key, $value := . -}}{{- $fields = append $fields (printf "%s: dyn(%s)" (toJson $key) (toJson $value)) -}}{{- end -}}
{{- $items = append $items (printf "{%s}" (join ", " $fields)) -}}
{{- else -}}
{{- $items = append $items (toJson .) -}}
{{- end -}}
{{- end -}}
[{{ join ", " $items }}]
{{- end }}

{{/*
CEL: fields that name a Secret, each with the name; of what each MCP server is given the first that is
ours. Arguments: object (CEL), ours (names).
*/}}
{{- define "orbiter.podTemplate.secrets" -}}
{{- $object := .object -}}
{{- $agent := printf "%s.spec.agent" $object -}}
{{- $git := printf "%s.spec.workspace.git" $object -}}
{{- $ours := include "orbiter.cel.matches" (dict "value" "string(e.valueFrom.secretKeyRef.name)" "patterns" .ours) -}}
{{- $test := printf "has(e.valueFrom) && has(e.valueFrom.secretKeyRef) && (%s)" $ours -}}
(has({{ $agent }}) && has({{ $agent }}.env) ? {{ $agent }}.env.filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, ['spec.agent.env[' + e.name + '].valueFrom.secretKeyRef.name', string(e.valueFrom.secretKeyRef.name)]) : [])
{{- printf " + (has(%s) && has(%s.credentialsSecretRef) ? [['spec.agent.credentialsSecretRef.name', string(%s.credentialsSecretRef.name)]] : [])" $agent $agent $agent -}}
{{- range $part := list "gateway" "oauthToken" -}}
{{- $token := printf "%s.auth.%s.tokenFrom" $agent $part -}}
{{- printf " + (has(%s) && has(%s.auth) && has(%s.auth.%s) && has(%s) ? [['spec.agent.auth.%s.tokenFrom.secretKeyRef.name', string(%s.secretKeyRef.name)]] : [])" $agent $agent $agent $part $token $part $token -}}
{{- end -}}
{{- printf " + (has(%s.spec.workspace) && has(%s) && has(%s.credentialsSecretRef) ? [['spec.workspace.git.credentialsSecretRef.name', string(%s.credentialsSecretRef.name)]] : [])" $object $git $git $git -}}
{{- range $kind := list "headers" "env" -}}
{{- printf " + (has(%s) && has(%s.mcpServers) ? %s.mcpServers.filter(m, has(m.%s) && m.%s.exists(e, %s))" $agent $agent $agent $kind $kind $test -}}
{{- printf ".map(m, m.%s.filter(e, %s).map(e, ['spec.agent.mcpServers[' + m.name + '].%s[' + e.name + '].valueFrom.secretKeyRef.name'" $kind $test $kind -}}
{{- print ", string(e.valueFrom.secretKeyRef.name)])[0]) : [])" -}}
{{- end -}}
{{- end }}

{{/* CEL: the role of AWS that an object names; '' when none. Argument: the object, in CEL. */}}
{{- define "orbiter.podTemplate.role" -}}
{{- $agent := printf "%s.spec.agent" . -}}
has({{ $agent }}) && has({{ $agent }}.auth) && has({{ $agent }}.auth.bedrock) ? string({{ $agent }}.auth.bedrock.roleARN) : ''
{{- end }}

{{/* CEL: the sentence of the first problem, letter for letter the operator's. */}}
{{- define "orbiter.podTemplate.sentence" -}}
size(variables.problems) == 0 ? '' : 'spec.podTemplate.' + variables.problem[1] + (
variables.problem[0] == 'field' ? ' is not for a podTemplate to say' + (variables.meant == '' ? ';' : '; did you mean ' + variables.meant + '? Else') + ' leave it out'
 + (variables.problem[2].startsWith('spec') ? ', or have the administrator add ' + variables.problem[2] + (variables.problem[3] == '' ? '' : '.' + variables.problem[3]) + " to the chart's workers.podTemplate.allow" : '')
 : variables.problem[0] == 'value' ? (variables.problem[3] == '' ? ' is' : " is '" + variables.problem[3] + "',") + " not one of the chart's " + variables.problem[2]
 + '; leave it out, or have the administrator add it there'
 : variables.problem[0] == 'name' ? " is '" + variables.problem[2] + "', " + variables.problem[3] : variables.problem[2])
{{- end }}
