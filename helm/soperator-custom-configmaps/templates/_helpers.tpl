{{- define "configs.labels" -}}
app.kubernetes.io/name: soperator-custom-configmaps
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: soperator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The key of a file: the last part of its path. */}}
{{- define "configs.key" -}}
{{- $key := base .path -}}
{{- if not (regexMatch "^[-._a-zA-Z0-9]+$" $key) -}}
{{- fail (printf "%s: the last part of %s may have only letters, digits, '-', '_' and '.'" .field .path) -}}
{{- end -}}
{{- $key -}}
{{- end }}

{{/* Permissions as the API has them: "0755" is 493. */}}
{{- define "configs.mode" -}}
{{- $number := 0 -}}
{{- range $digit := regexFindAll "[0-7]" . -1 -}}
{{- $number = add (mul $number 8) (atoi $digit) -}}
{{- end -}}
{{- $number -}}
{{- end }}

{{/* A ConfigMap and its JailedConfig, from a dict of root, name, field, files, group and reconfigure. */}}
{{- define "configs.jailed" -}}
{{- $keys := list -}}
{{- $paths := list -}}
{{- range .files -}}
{{- $key := include "configs.key" . -}}
{{- if has $key $keys -}}
{{- fail (printf "%s: two files of %s are called %s; give them different names, or put one into another entry" .field $.name $key) -}}
{{- end -}}
{{- $keys = append $keys $key -}}
{{- end -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "configs.labels" .root | nindent 4 }}
data:
  {{- range .files }}
  {{ include "configs.key" . }}: {{ .content | toJson }}
  {{- end }}
---
apiVersion: slurm.nebius.ai/v1alpha1
kind: JailedConfig
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "configs.labels" .root | nindent 4 }}
    {{- with .group }}
    slurm.nebius.ai/jailed-aggregation: {{ . }}
    {{- end }}
  {{- with .root.Values.clusterName }}
  annotations:
    slurm.nebius.ai/parental-cluster-ref: {{ . }}
  {{- end }}
spec:
  configMap:
    name: {{ .name }}
  items:
    {{- range .files }}
    - key: {{ include "configs.key" . }}
      path: {{ .path }}
      {{- with .mode }}
      mode: {{ include "configs.mode" . }}
      {{- end }}
    {{- end }}
  {{- if .reconfigure }}
  updateActions: [Reconfigure]
  {{- end }}
{{- end }}
