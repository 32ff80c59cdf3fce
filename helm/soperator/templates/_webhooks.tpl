{{/* Where the API server asks: (dict "root" $ "path" PATH). */}}
{{- define "soperator.webhookClient" -}}
clientConfig:
  service:
    namespace: {{ .root.Release.Namespace }}
    name: {{ include "soperator.webhookName" .root }}
    port: 443
    path: {{ .path }}
{{- end }}

{{/* In which namespaces, and what all webhooks have. */}}
{{- define "soperator.webhookEnd" -}}
{{- with (include "soperator.namespaces" . | fromJson).names -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values: {{ toJson . }}
{{ end -}}
sideEffects: None
admissionReviewVersions: [v1]
{{- end }}

{{/* Of those that look at what users write. */}}
{{- define "soperator.webhookPolicy" -}}
failurePolicy: {{ .Values.webhooks.failurePolicy }}
timeoutSeconds: {{ .Values.webhooks.timeoutSeconds }}
{{- end }}

{{/* The name by which the API server knows the operator. */}}
{{- define "soperator.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "soperator.name" . }}
{{- end }}

{{/* "true" where the operator serves the kinds of slinky.slurm.net. */}}
{{- define "soperator.slinky" -}}
{{- $named := .Values.controllerManager.manager.controllers -}}
{{- range list "slinky-cluster" "slinky-nodeset" -}}
{{- if or (has . $named) (and (has "*" $named) (not (has (printf "-%s" .) $named))) }}true{{ end -}}
{{- end -}}
{{- end }}
