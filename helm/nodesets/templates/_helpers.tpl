{{- define "nodesets.labels" -}}
app.kubernetes.io/name: nodesets
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: soperator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* All sets, by name, with defaults and their key in the values, as JSON below "sets". */}}
{{- define "nodesets.all" -}}
{{- $sets := dict -}}
{{- $values := .Values -}}
{{- if kindIs "map" .Values.nodesets -}}
{{- range $name, $own := .Values.nodesets -}}
{{- $args := dict "values" $values "name" $name "own" ($own | default dict) "key" (printf "nodesets.%s" $name) -}}
{{- $_ := set $sets $name (include "nodesets.whole" $args | fromJson) -}}
{{- end -}}
{{- else -}}
{{- range $index, $own := .Values.nodesets -}}
{{- if hasKey $sets $own.name -}}
{{- fail (printf "nodesets[%d].name: %s is the name of another set too; every set needs its own" $index $own.name) -}}
{{- end -}}
{{- $args := dict "values" $values "name" $own.name "own" (omit $own "name") "key" (printf "nodesets[%d]" $index) -}}
{{- $_ := set $sets $own.name (include "nodesets.whole" $args | fromJson) -}}
{{- end -}}
{{- end -}}
{{- dict "sets" $sets | toJson -}}
{{- end }}

{{/* One set with its defaults: (dict "values" .Values "name" NAME "own" SET "key" KEY), as JSON. */}}
{{- define "nodesets.whole" -}}
{{- $set := include "nodesets.merge" (dict "base" .values.defaults "over" .own) | fromJson -}}
{{- $slurmd := $set.slurmd | default dict -}}
{{- $volumes := $slurmd.volumes | default dict -}}
{{- $own := ((.own.slurmd | default dict).volumes) | default dict -}}
{{- /* A volume has one source: that of the set replaces the default. */ -}}
{{- range list "spool" "jail" -}}
{{- if get $own . -}}
{{- $_ := set $volumes . (get $own .) -}}
{{- end -}}
{{- end -}}
{{- $spool := $volumes.spool | default dict -}}
{{- with $spool.volumeClaimTemplateSpec -}}
{{- $_ := set $volumes "spool" (dict "ephemeral" (dict "volumeClaimTemplate" (dict "spec" .))) -}}
{{- end -}}
{{- $_ := set $slurmd "volumes" $volumes -}}
{{- if not $slurmd.resources -}}
{{- fail (printf "%s.slurmd.resources is missing: write at least cpu and memory of one worker" .key) -}}
{{- end -}}
{{- $_ := set $set "slurmd" (include "nodesets.container" (dict "values" .values "container" $slurmd "image" .values.images.slurmd) | fromJson) -}}
{{- $munge := $set.munge | default dict -}}
{{- $_ := set $set "munge" (include "nodesets.container" (dict "values" .values "container" $munge "image" .values.images.munge) | fromJson) -}}
{{- with $set.sssd -}}
{{- $_ := set $set "sssd" (include "nodesets.container" (dict "values" $.values "container" . "image" dict) | fromJson) -}}
{{- end -}}
{{- if and .values.clusterName (not $set.clusterName) -}}
{{- $_ := set $set "clusterName" .values.clusterName -}}
{{- end -}}
{{- $_ := set $set "key" .key -}}
{{- toJson $set -}}
{{- end }}

{{/* A container with its image, and resources by the names of Kubernetes: (dict "values" .Values "container" C "image" DEFAULT), as JSON. */}}
{{- define "nodesets.container" -}}
{{- $container := deepCopy .container -}}
{{- $_ := set $container "image" (include "nodesets.merge" (dict "base" .image "over" ($container.image | default dict)) | fromJson) -}}
{{- $names := dict "ephemeralStorage" "ephemeral-storage" "gpu" "nvidia.com/gpu" -}}
{{- $resources := dict -}}
{{- range $key, $value := $container.resources -}}
{{- /* As JSON, because large numbers would else become 1e+10. */ -}}
{{- $text := $value | toJson | trimAll "\"" -}}
{{- if not (has $text (list "" "0" "null")) -}}
{{- $_ := set $resources (get $names $key | default $key) $text -}}
{{- end -}}
{{- end -}}
{{- if $resources -}}
{{- $_ := set $container "resources" $resources -}}
{{- end -}}
{{- toJson $container -}}
{{- end }}

{{/* The second over the first, at all depths: (dict "base" MAP "over" MAP), as JSON. What is null is not there. */}}
{{- define "nodesets.merge" -}}
{{- $out := deepCopy (.base | default dict) -}}
{{- range $key, $value := .over -}}
{{- $below := get $out $key -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $out $key -}}
{{- else if and (kindIs "map" $value) (kindIs "map" $below) -}}
{{- $_ := set $out $key (include "nodesets.merge" (dict "base" $below "over" $value) | fromJson) -}}
{{- else -}}
{{- $_ := set $out $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end }}
