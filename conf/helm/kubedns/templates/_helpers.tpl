{{- define "kubedns.name" -}}
{{- $own := ternary "kube-dns" .Release.Name .Values.isClusterService -}}
{{- .Values.deployment.name | default .Values.fullnameOverride | default $own | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kubedns.app" -}}
{{- .Values.k8sAppLabelOverride | default (include "kubedns.name" .) -}}
{{- end -}}

{{- define "kubedns.account" -}}
{{- .Values.serviceAccount.name | default (include "kubedns.rights" .) -}}
{{- end -}}

{{- /* Of rights; on every node they are of their own, as in components/node. */ -}}
{{- define "kubedns.rights" -}}
{{- include "kubedns.name" . -}}{{- if eq .Values.topology "node" -}}-node{{- end -}}
{{- end -}}

{{- /* One object of a file of conf/kubernetes: (list $ "rbac.yaml" 0). */ -}}
{{- define "kubedns.manifest" -}}
{{- $root := index . 0 -}}
{{- $documents := splitList "\n---\n" ($root.Files.Get (printf "files/%s" (index . 1))) -}}
{{- index $documents (index . 2) -}}
{{- end -}}

{{- /* The flags of the zones for the world outside, as a list. */ -}}
{{- define "kubedns.external" -}}
{{- with .Values.external }}
{{- if .zones }}
- --external-zones={{ join "," .zones }}
{{- with .ns }}
- --external-ns={{ join "," . }}
{{- end }}
{{- with .address }}
- --external-address={{ . }}
{{- end }}
{{- if .headless }}
- --external-headless
{{- end }}
{{- else if or .ns .address .headless }}
{{- fail "external: which zones? external.zones is empty" }}
{{- else }}
[]
{{- end }}
{{- end }}
{{- end -}}

{{- /* An object with what each of them has: (list $ object name app). */ -}}
{{- define "kubedns.print" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $_ := set $object.metadata "name" (index . 2) -}}
{{- if not (has $object.kind (list "ClusterRole" "ClusterRoleBinding" "PriorityLevelConfiguration" "FlowSchema")) -}}
{{- $_ := set $object.metadata "namespace" ($object.metadata.space | default $root.Release.Namespace) -}}
{{- end -}}
{{- $_ := unset $object.metadata "space" -}}
{{- $labels := dict "k8s-app" (index . 3) "app.kubernetes.io/name" $root.Chart.Name "app.kubernetes.io/instance" $root.Release.Name
    "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- $_ := set $object.metadata "labels" (mergeOverwrite (dict) (default dict $object.metadata.labels) $labels $root.Values.customLabels) -}}
{{- $annotations := merge (dict) (default dict $object.metadata.annotations) $root.Values.customAnnotations -}}
{{- if $annotations -}}{{- $_ := set $object.metadata "annotations" $annotations -}}{{- end -}}
{{- toYaml $object -}}
{{- end -}}

{{- define "kubedns.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index $root.Values (index . 1)).image -}}
{{- $registry := required "registry is not set: where you pushed kubedns, nanny and sidecar (--set registry=registry.example/dns)" $root.Values.registry -}}
{{- if contains "://" $registry -}}{{- fail (printf "registry: %s: images are named without a scheme" $registry) -}}{{- end -}}
{{- printf "%s/%s:%s" $registry $image.name ($image.tag | default $root.Chart.AppVersion) -}}
{{- if $image.digest -}}{{- printf "@%s" $image.digest -}}{{- end -}}
{{- end -}}
