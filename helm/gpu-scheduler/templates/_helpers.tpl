{{- define "gpu-scheduler.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* The name of everything; other names begin with it. */}}
{{- define "gpu-scheduler.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "gpu-scheduler.selector" -}}
app.kubernetes.io/name: {{ include "gpu-scheduler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gpu-scheduler.labels" -}}
{{ include "gpu-scheduler.selector" . }}
app.kubernetes.io/part-of: soperator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "gpu-scheduler.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "gpu-scheduler.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- define "gpu-scheduler.image" -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion -}}
{{- end }}

{{- define "gpu-scheduler.webhookName" -}}
{{- include "gpu-scheduler.fullname" . }}-webhook
{{- end }}

{{- define "gpu-scheduler.webhookSecret" -}}
{{- .Values.webhook.secretName | default (printf "%s-tls" (include "gpu-scheduler.webhookName" .)) -}}
{{- end }}

{{/* own, cert-manager or secret. */}}
{{- define "gpu-scheduler.certificate" -}}
{{- $chosen := .Values.webhook.certificate -}}
{{- if and .Values.webhook.caBundle $chosen (ne $chosen "secret") -}}
{{- fail (printf "webhook.caBundle is set, so the certificate is yours, and webhook.certificate is %q; set only one of them" $chosen) -}}
{{- end -}}
{{- $chosen | default (ternary "secret" "own" (not (empty .Values.webhook.caBundle))) -}}
{{- end }}

{{/* What cannot work together, told before anything is installed. */}}
{{- define "gpu-scheduler.check" -}}
{{- if and (or .Values.authorization.strict .Values.authorization.rules) (not .Values.webhook.enabled) -}}
{{- fail "authorization has rules, and webhook.enabled is false: nobody would ask for them; set webhook.enabled=true" -}}
{{- end -}}
{{- if and .Values.authorization.strict (ne .Values.webhook.failurePolicy "Fail") -}}
{{- fail "authorization.strict is true, and webhook.failurePolicy is Ignore: while no webhook answers, everybody could name every node; set webhook.failurePolicy=Fail" -}}
{{- end -}}
{{- end }}

{{/* Environment of both containers. */}}
{{- define "gpu-scheduler.env" -}}
- name: SCHEDULER_NAME
  value: {{ .Values.scheduler.name | quote }}
- name: LEADER_ELECTION_ID
  value: {{ include "gpu-scheduler.fullname" . }}
- name: OPERATOR_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where the API server asks: (dict "root" $ "path" PATH). */}}
{{- define "gpu-scheduler.webhookClient" -}}
clientConfig:
  {{- with .root.Values.webhook.caBundle }}
  caBundle: {{ . }}
  {{- end }}
  service:
    namespace: {{ .root.Release.Namespace }}
    name: {{ include "gpu-scheduler.webhookName" .root }}
    port: 443
    path: {{ .path }}
{{- end }}

{{/* What all webhooks have. */}}
{{- define "gpu-scheduler.webhookEnd" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ append .Values.webhook.excludedNamespaces .Release.Namespace | uniq | toJson }}
failurePolicy: {{ .Values.webhook.failurePolicy }}
timeoutSeconds: {{ .Values.webhook.timeoutSeconds }}
matchPolicy: Equivalent
sideEffects: None
admissionReviewVersions: [v1]
{{- end }}
