{{/*
Rights in the namespaces of clusters. Objects are written by server-side apply, which is create and patch. A role that the operator
gives to its pods can hold no right that is missing here.
*/}}
{{- define "soperator.namespacedRules" -}}
{{- $env := .Values.controllerManager.manager.env -}}
# What users write.
- apiGroups: [slurm.nebius.ai]
  resources: [slurmclusters, nodeconfigurators, topologyconfigs]
  verbs: [get, list, watch, patch]
# What users and the operator write.
- apiGroups: [slurm.nebius.ai]
  resources: [nodesets, jailedconfigs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [slurm.nebius.ai]
  resources: [slurmclusters/status, nodesets/status, nodeconfigurators/status, topologyconfigs/status, jailedconfigs/status]
  verbs: [get, patch]
# Owner references that hold up the deletion of their owner.
- apiGroups: [slurm.nebius.ai]
  resources: [slurmclusters/finalizers, nodesets/finalizers, nodeconfigurators/finalizers, topologyconfigs/finalizers, jailedconfigs/finalizers]
  verbs: [update]
{{- if include "soperator.slinky" . }}
# Slurm clusters and sets of workers of Slinky.
- apiGroups: [slinky.slurm.net]
  resources: [clusters]
  verbs: [get, list, watch]
- apiGroups: [slinky.slurm.net]
  resources: [nodesets]
  verbs: [get, list, watch, patch]
- apiGroups: [slinky.slurm.net]
  resources: [clusters/status, nodesets/status]
  verbs: [get, patch]
- apiGroups: [slinky.slurm.net]
  resources: [nodesets/finalizers]
  verbs: [update]
{{- end }}
- apiGroups: [""]
  resources: [configmaps, secrets, services, serviceaccounts, persistentvolumeclaims, pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
# Claims that go with their pod.
- apiGroups: [""]
  resources: [pods/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [statefulsets, deployments, daemonsets, controllerrevisions]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# For roles of pods that elect a leader.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch, delete]
{{- if ne (toString $env.isPrometheusCrdInstalled) "false" }}
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors, servicemonitors]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- if ne (toString $env.isMariadbCrdInstalled) "false" }}
- apiGroups: [k8s.mariadb.com]
  resources: [mariadbs, grants]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- if ne (toString $env.isApparmorCrdInstalled) "false" }}
- apiGroups: [security-profiles-operator.x-k8s.io]
  resources: [apparmorprofiles]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end }}

{{/* Rights on what has no namespace. */}}
{{- define "soperator.clusterRules" -}}
# Labels of nodes tell the topology, and whether they are cordoned or gone decides over workers. Namespaces tell whether they end,
# and whether their user gave up the care for jobs.
- apiGroups: [""]
  resources: [nodes, namespaces]
  verbs: [get, list, watch]
# Tells when kinds of other operators come and go.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
{{- if .Values.webhooks.enabled }}
# caBundle.
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
  resourceNames: [{{ include "soperator.webhookName" . }}]
  verbs: [get, list, watch, patch]
{{- end }}
{{- if .Values.metrics.authorization }}
# Who asks for metrics, and may they?
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- end }}

{{/* Rights in the operator's own namespace. A name cannot limit the right to create. */}}
{{- define "soperator.ownRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "soperator.lease" . }}]
  verbs: [get, update]
{{- if .Values.webhooks.enabled }}
{{- $own := eq (include "soperator.certificate" .) "own" }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "soperator.webhookSecret" . }}]
  verbs: [get, list, watch{{ if $own }}, update{{ end }}]
{{- if $own }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}
{{- if eq (include "soperator.certificate" .) "cert-manager" }}
- apiGroups: [cert-manager.io]
  resources: [issuers, certificates]
  verbs: [get, list, watch, create, patch]
{{- end }}
{{- end }}
{{- if and .Values.tls.enabled .Values.tls.secretName }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ .Values.tls.secretName }}]
  verbs: [get, list, watch]
{{- end }}
{{- end }}
