{{- define "cluster.labels" -}}
app.kubernetes.io/name: slurm-cluster
app.kubernetes.io/instance: {{ .Values.clusterName }}
app.kubernetes.io/part-of: soperator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "cluster.scriptsName" -}}
{{- .Values.clusterName }}-slurm-scripts
{{- end }}

{{/*
One setting that two values can have: (dict "first" VALUE "firstKey" KEY "second" VALUE "secondKey" KEY "default" VALUE), where the
default is that of the first in values.yaml. The result is JSON below "value".
*/}}
{{- define "cluster.either" -}}
{{- $first := .first | toString -}}
{{- $second := .second | toString -}}
{{- if or (kindIs "invalid" .second) (eq $second "") (eq $first $second) -}}
{{- dict "value" .first | toJson -}}
{{- else if or (kindIs "invalid" .first) (eq $first "") (eq $first (toString .default)) -}}
{{- dict "value" .second | toJson -}}
{{- else -}}
{{- fail (printf "%s (%s) and %s (%s) are the same setting with different values; set only one of them" .firstKey $first .secondKey $second) -}}
{{- end -}}
{{- end }}

{{/* The name of a part's priority class: that of the user, else ours. (dict "root" $ "part" NAME "own" VALUE) */}}
{{- define "cluster.priorityClass" -}}
{{- if .own -}}
{{- .own -}}
{{- else if .root.Values.priorityClasses.create -}}
{{- printf "%s-%s-slurm-%s" .root.Release.Namespace .root.Values.clusterName .part -}}
{{- end -}}
{{- end }}
