{{/* What `controller` and `worker` say in other words, put into slurmNodes; the result is slurmNodes as JSON. */}}
{{- define "cluster.nodes" -}}
{{- $nodes := deepCopy .Values.slurmNodes -}}
{{- $defaults := dict
  "controller" (dict "cpu" "1" "memory" "3Gi" "ephemeral-storage" "20Gi")
  "worker" (dict "cpu" "156" "memory" "1220Gi" "ephemeral-storage" "55Gi" "nvidia.com/gpu" "8") -}}
{{- $alias := dict "ephemeral-storage" "ephemeralStorage" "nvidia.com/gpu" "gpu" -}}
{{- range $part, $container := dict "controller" "slurmctld" "worker" "slurmd" -}}
{{- $other := get $.Values $part | default dict -}}
{{- $resources := get (get $nodes $part) $container | dig "resources" dict -}}
{{- range $kind := list "requests" "limits" -}}
{{- range $name, $amount := dig "resources" $kind dict $other -}}
{{- $key := get $alias $name | default $name -}}
{{- if hasKey $resources $name }}{{ $key = $name }}{{ end -}}
{{- $args := dict "first" (get $resources $key) "second" $amount "default" (get (get $defaults $part) $name) -}}
{{- $_ := set $args "firstKey" (printf "slurmNodes.%s.%s.resources.%s" $part $container $key) -}}
{{- $_ := set $args "secondKey" (printf "%s.resources.%s.%s" $part $kind $name) -}}
{{- $_ := set $resources $key (include "cluster.either" $args | fromJson).value -}}
{{- $_ := set (get $defaults $part) $name "" -}}
{{- end -}}
{{- end -}}
{{- $_ := set (get (get $nodes $part) $container) "resources" $resources -}}
{{- end -}}
{{- with .Values.controller.replicas -}}
{{- if ne (toString .) "1" -}}
{{- fail (printf "controller.replicas is %v; there is always one slurmctld, and it starts again by itself: write 1, or nothing" .) -}}
{{- end -}}
{{- end -}}
{{- $size := dict "first" $nodes.worker.size "firstKey" "slurmNodes.worker.size" "second" .Values.worker.replicas "secondKey" "worker.replicas" "default" 2 -}}
{{- $_ := set $nodes.worker "size" (include "cluster.either" $size | fromJson).value -}}
{{- toJson $nodes -}}
{{- end }}

{{/* The mounts of the scripts, outside of the jail and in it, before those of the user, as JSON below "mounts". */}}
{{- define "cluster.mounts" -}}
{{- $mounts := list (dict "name" "slurm-scripts" "mountPath" "/opt/slurm_scripts" "readOnly" true "volumeSourceName" "slurm-scripts") -}}
{{- if .jail -}}
{{- $mounts = append $mounts (dict "name" "slurm-scripts-jail" "mountPath" "/mnt/jail.upper/opt/slurm_scripts" "readOnly" true "volumeSourceName" "slurm-scripts") -}}
{{- end -}}
{{- $taken := list -}}
{{- range .custom }}{{ $taken = append $taken .mountPath }}{{ end -}}
{{- $out := list -}}
{{- range $mounts }}{{ if not (has .mountPath $taken) }}{{ $out = append $out . }}{{ end }}{{ end -}}
{{- dict "mounts" (concat $out (.custom | default list)) | toJson -}}
{{- end }}

{{/* The volumes that parts refer to, as JSON below "sources". */}}
{{- define "cluster.volumeSources" -}}
{{- $sources := list -}}
{{- $names := list -}}
{{- range .Values.volumeSources -}}
{{- $sources = append $sources (omit . "createPVC" "storageClassName" "size" "accessModes") -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if not (has "slurm-scripts" $names) -}}
{{- $sources = append $sources (dict "name" "slurm-scripts" "configMap" (dict "name" (include "cluster.scriptsName" .) "defaultMode" 493)) -}}
{{- end -}}
{{- dict "sources" $sources | toJson -}}
{{- end }}
