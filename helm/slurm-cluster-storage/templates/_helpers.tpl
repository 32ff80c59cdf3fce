{{- define "storage.labels" -}}
app.kubernetes.io/name: slurm-cluster-storage
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: soperator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The volumes that are wanted, with all their settings and their key in the values, as JSON below "volumes". */}}
{{- define "storage.volumes" -}}
{{- $all := list -}}
{{- range $key := list "jail" "controllerSpool" "accounting" -}}
{{- $volume := deepCopy (get $.Values.volume $key) -}}
{{- if ne (toString $volume.enabled) "false" -}}
{{- $all = append $all (set $volume "key" (printf "volume.%s" $key)) -}}
{{- end -}}
{{- end -}}
{{- range $index, $volume := $.Values.volume.jailSubMounts -}}
{{- $all = append $all (merge (deepCopy $volume) (dict "key" (printf "volume.jailSubMounts[%d]" $index) "accessModes" (list "ReadWriteMany"))) -}}
{{- end -}}
{{- $names := list -}}
{{- $volumes := list -}}
{{- range $volume := $all -}}
{{- $key := $volume.key -}}
{{- if hasKey $volume "filestoreDeviceName" -}}
{{- fail (printf "%s.filestoreDeviceName is not supported: mount the device on the nodes, and set %s.path to where it is" $key $key) -}}
{{- end -}}
{{- $whole := mergeOverwrite (deepCopy $.Values.defaults) $volume -}}
{{- $_ := set $whole "key" $key -}}
{{- if not $volume.path -}}
{{- $_ := set $whole "path" (printf "%s/%s" (trimSuffix "/" $.Values.defaults.path) $volume.name) -}}
{{- end -}}
{{- $_ := set $whole "claimName" ($volume.claimName | default (printf "%s-pvc" $volume.name)) -}}
{{- if has $volume.name $names -}}
{{- fail (printf "%s.name: %s is the name of another volume too; every volume needs its own" $key $volume.name) -}}
{{- end -}}
{{- $names = append $names $volume.name -}}
{{- if and (eq $whole.type "nfs") (not $whole.server) -}}
{{- fail (printf "%s is of type nfs and has no server; set %s.server or defaults.server" $key $key) -}}
{{- end -}}
{{- if and (eq $whole.type "local") (not $whole.nodeNames) (not $whole.matchExpressions) -}}
{{- fail (printf "%s is of type local, and no node is named that has it; set nodeNames or matchExpressions there or in defaults" $key) -}}
{{- end -}}
{{- $volumes = append $volumes $whole -}}
{{- end -}}
{{- dict "volumes" $volumes | toJson -}}
{{- end }}

{{/* Volumes have no namespace, so their names hold it. */}}
{{- define "storage.volumeName" -}}
{{- printf "%s-%s-pv" .root.Release.Namespace .volume.name | trunc 253 -}}
{{- end }}
