{{/*
An image with its tag: (dict "root" $ "name" NAME-IN-images "own" IMAGE-OF-THE-CONTAINER "ownKey" KEY "slurm" BOOL "fallback"
IMAGE-INSTEAD-OF-THE-DEFAULT). An image without a tag gets one.
*/}}
{{- define "cluster.image" -}}
{{- $values := .root.Values -}}
{{- $args := dict "first" (get $values.images .name) "firstKey" (printf "images.%s" .name) "second" .own "secondKey" .ownKey -}}
{{- $_ := set $args "default" (printf "soperator.local/%s" (get (dict "populateJail" "jail" "exporter" "soperator" "sconfigcontroller" "soperator" "mariaDB" "mariadb") .name | default "slurm")) -}}
{{- $image := (include "cluster.either" $args | fromJson).value -}}
{{- if and .fallback (eq $image $args.default) }}{{ $image = .fallback }}{{ end -}}
{{- if not $image -}}
{{- fail (printf "images.%s is empty; name an image" .name) -}}
{{- end -}}
{{- $last := splitList "/" $image | last -}}
{{- if or (contains ":" $last) (contains "@" $last) -}}
{{- $found := regexFind "-slurm[0-9.]+$" $last | trimPrefix "-slurm" -}}
{{- if and .slurm $values.slurmVersion $found (ne $found (toString $values.slurmVersion)) -}}
{{- fail (printf "slurmVersion (%s) and images.%s (%s) are the same setting with different values; set only one of them" (toString $values.slurmVersion) .name $image) -}}
{{- end -}}
{{- $image -}}
{{- else if .slurm -}}
{{- $ubuntu := ternary (printf "-%s" $values.ubuntuVersion) "" (not (empty $values.ubuntuVersion)) -}}
{{- printf "%s:%s%s-slurm%s" $image .root.Chart.AppVersion $ubuntu ($values.slurmVersion | default "24.11" | toString) -}}
{{- else -}}
{{- printf "%s:%s" $image .root.Chart.AppVersion -}}
{{- end -}}
{{- end }}

{{/*
A container of the values as the SlurmCluster has it, as JSON: with its image, and resources by the names of Kubernetes.
(dict "root" $ "container" VALUES "key" KEY "image" NAME-IN-images "slurm" BOOL "fallback" IMAGE)
*/}}
{{- define "cluster.container" -}}
{{- $container := deepCopy (.container | default dict) -}}
{{- $args := dict "root" .root "name" .image "own" $container.image "ownKey" (printf "%s.image" .key) "slurm" .slurm "fallback" .fallback -}}
{{- $_ := set $container "image" (include "cluster.image" $args) -}}
{{- $_ := set $container "resources" (include "cluster.resources" (dict "root" .root "resources" $container.resources) | fromJson) -}}
{{- include "cluster.present" $container -}}
{{- end }}

{{/* Resources by the names of Kubernetes, without those that are empty or 0, as JSON. */}}
{{- define "cluster.resources" -}}
{{- $out := dict -}}
{{- $names := dict "ephemeralStorage" "ephemeral-storage" "gpu" "nvidia.com/gpu" -}}
{{- $gpu := eq .root.Values.clusterType "gpu" -}}
{{- range $key, $value := .resources | default dict -}}
{{- $name := get $names $key | default $key -}}
{{- $text := $value | toString -}}
{{- if and (not (has $text (list "" "0" "<nil>"))) (or $gpu (ne $name "nvidia.com/gpu")) -}}
{{- $_ := set $out $name $text -}}
{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end }}

{{/* An object without keys that have no value, as JSON. */}}
{{- define "cluster.present" -}}
{{- $out := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $out $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end }}
