{{/* The name of everything; other names begin with it. */}}
{{- define "soperator.name" -}}
{{- .Values.fullnameOverride | default "slurm-operator" -}}
{{- end }}

{{- define "soperator.selector" -}}
app.kubernetes.io/name: soperator
app.kubernetes.io/instance: {{ include "soperator.name" . }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "soperator.labels" -}}
{{ include "soperator.selector" . }}
app.kubernetes.io/part-of: soperator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "soperator.image" -}}
{{- with .Values.controllerManager.manager.image -}}
{{- .repository }}:{{ .tag | default $.Chart.AppVersion -}}
{{- end -}}
{{- end }}

{{- define "soperator.mariadbImage" -}}
{{- .Values.defaultMariadbImage | default (printf "soperator.local/mariadb:%s" .Chart.AppVersion) -}}
{{- end }}

{{/* Two places for the same thing: (dict "first" NAME "second" NAME "values" .Values "default" VALUE), as JSON below "value". */}}
{{- define "soperator.either" -}}
{{- $first := get . "values" -}}
{{- range splitList "." .first }}{{ $first = get $first . }}{{ end -}}
{{- $second := get . "values" -}}
{{- range splitList "." .second }}{{ $second = get $second . }}{{ end -}}
{{- if and $first $second (ne (toJson $first) (toJson $second)) -}}
{{- fail (printf "%s (%s) and %s (%s) are the same setting with different values; set only one of them" .first (toJson $first) .second (toJson $second)) -}}
{{- end -}}
{{- dict "value" ($first | default $second | default .default) | toJson -}}
{{- end }}

{{- define "soperator.pullPolicy" -}}
{{- $args := dict "values" .Values "first" "controllerManager.manager.image.pullPolicy" "second" "controllerManager.manager.imagePullPolicy" "default" "IfNotPresent" -}}
{{- (include "soperator.either" $args | fromJson).value -}}
{{- end }}

{{- define "soperator.resources" -}}
{{- $default := dict "requests" (dict "cpu" "100m" "memory" "64Mi") "limits" (dict "memory" "128Mi") -}}
{{- $args := dict "values" .Values "first" "controllerManager.manager.resources" "second" "controllerManager.resources" "default" $default -}}
{{- (include "soperator.either" $args | fromJson).value | toYaml -}}
{{- end }}

{{- define "soperator.securityContext" -}}
{{- $base := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- mergeOverwrite $base (deepCopy .Values.controllerManager.securityContext) | toYaml -}}
{{- end }}

{{- define "soperator.lease" -}}
{{- .Values.leaderElection.id | default (include "soperator.name" .) -}}
{{- end }}

{{- define "soperator.webhookName" -}}
{{- include "soperator.name" . }}-webhook
{{- end }}

{{- define "soperator.webhookSecret" -}}
{{- .Values.webhooks.secretName | default (printf "%s-tls" (include "soperator.webhookName" .)) -}}
{{- end }}

{{- define "soperator.certificate" -}}
{{- $chosen := .Values.webhooks.certificate -}}
{{- if and .Values.certManager.enabled $chosen (ne $chosen "cert-manager") -}}
{{- fail (printf "certManager.enabled (true) and webhooks.certificate (%s) are the same setting with different values; set only one of them" $chosen) -}}
{{- end -}}
{{- $chosen | default (ternary "cert-manager" "own" .Values.certManager.enabled) -}}
{{- end }}

{{/* The namespaces that the operator works in, as JSON below "names"; none means all. */}}
{{- define "soperator.namespaces" -}}
{{- $names := list -}}
{{- range splitList "," (.Values.controllerManager.manager.env.slurmOperatorWatchNamespaces | default "*") -}}
{{- with trim . }}{{ $names = append $names . }}{{ end -}}
{{- end -}}
{{- dict "names" (ternary (list) ($names | uniq | sortAlpha) (has "*" $names)) | toJson -}}
{{- end }}

{{/* true, false, or nothing for what the program finds out. */}}
{{- define "soperator.served" -}}
{{- $text := toString . -}}
{{- if and (ne $text "auto") (ne $text "<nil>") }}{{ $text }}{{ end -}}
{{- end }}

{{/* serviceMonitor, with what metrics.serviceMonitor says, as JSON. */}}
{{- define "soperator.serviceMonitor" -}}
{{- $monitor := deepCopy .Values.serviceMonitor -}}
{{- $default := dict "enabled" false "jobLabel" "soperator" "interval" "30s" "scrapeTimeout" "10s" -}}
{{- range $key, $value := .Values.metrics.serviceMonitor -}}
{{- $own := get $monitor $key -}}
{{- if and (ne (toJson $own) (toJson (get $default $key))) (ne (toJson $own) (toJson $value)) -}}
{{- fail (printf "serviceMonitor.%s (%s) and metrics.serviceMonitor.%s (%s) are the same setting with different values; set only one of them" $key (toJson $own) $key (toJson $value)) -}}
{{- end -}}
{{- $_ := set $monitor $key $value -}}
{{- end -}}
{{- toJson $monitor -}}
{{- end }}
