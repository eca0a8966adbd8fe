{{- define "kubedns.name" -}}
{{- $own := ternary "kube-dns" .Release.Name .Values.isClusterService -}}
{{- .Values.deployment.name | default .Values.fullnameOverride | default $own | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kubedns.app" -}}
{{- .Values.k8sAppLabelOverride | default (include "kubedns.name" .) -}}{{- if .local -}}-node{{- end -}}
{{- end -}}

{{- /* Without its own account, the pod uses the account "default" of the namespace, as in the coredns chart. */ -}}
{{- define "kubedns.account" -}}
{{- .Values.serviceAccount.name | default (ternary (include "kubedns.rights" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- /* The name of the rights. The pods on every node have their own, as in components/node. */ -}}
{{- define "kubedns.rights" -}}
{{- include "kubedns.name" . -}}{{- if or .local (eq .Values.topology "node") -}}-node{{- end -}}
{{- end -}}

{{- /* "true" if the release has central pods and their Service. With node-local, they may belong to another DNS. */ -}}
{{- define "kubedns.central" -}}
{{- if or .Values.deployment.enabled (ne .Values.topology "node-local") -}}true{{- end -}}
{{- end -}}

{{- /* Changes an object as a strategic merge patch does: null removes a field, and any other list replaces the list. (list OBJECT PATCH) */ -}}
{{- define "kubedns.merge" -}}
{{- $object := index . 0 -}}
{{- range $field, $value := index . 1 -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $object $field -}}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $object $field)) -}}
{{- include "kubedns.merge" (list (get $object $field) $value) -}}
{{- else -}}
{{- $_ := set $object $field $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* One object of a file in conf/kubernetes: (list $ "rbac.yaml" 0). */ -}}
{{- define "kubedns.manifest" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (printf "files/%s" (index . 1)) -}}
{{- if not (contains "kind:" $text) }}{{- fail (printf "files/%s: it has no object: it is a link to a file in conf/kubernetes. Copy the chart with the files of its links (cp -rL)" (index . 1)) }}{{- end -}}
{{- $documents := splitList "\n---\n" $text -}}
{{- index $documents (index . 2) -}}
{{- end -}}

{{- /* The components of conf/kubernetes that the values ask for, as a list of files. */ -}}
{{- define "kubedns.components" -}}
{{- $found := list -}}
{{- $nearestByPods := and .Values.nearest.enabled (ne .Values.topology "node") (not .local) -}}
{{- if or .Values.clientPods .Values.tenants.enabled $nearestByPods -}}{{- $found = append $found "client-pods.yaml" -}}{{- end -}}
{{- if .Values.tenants.enabled -}}{{- $found = append $found "tenants.yaml" -}}{{- end -}}
{{- if .Values.nearest.enabled -}}{{- $found = append $found (ternary "nearest.yaml" "nearest-node.yaml" $nearestByPods) -}}{{- end -}}
{{- if .Values.external.zones -}}{{- $found = append $found "external-names.yaml" -}}{{- end -}}
{{- if .Values.multicluster.enabled -}}{{- $found = append $found "multicluster.yaml" -}}{{- end -}}
{{- if .Values.hostsNamespaces -}}{{- $found = append $found "hosts.yaml" -}}{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{- /* The operations that these components add to objects of a kind, as a list of {path, value}. (list $ "ClusterRole") */ -}}
{{- define "kubedns.additions" -}}
{{- $root := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $found := list -}}
{{- $namespaces := printf "--hosts-namespaces=%s" (join "," $root.Values.hostsNamespaces) -}}
{{- $visibility := printf "--visibility=%s" $root.Values.tenants.visibility -}}
{{- range (include "kubedns.components" $root | fromYamlArray) -}}
{{- range (include "kubedns.manifest" (list $root . 0) | replace "--hosts-namespaces=dns-names" $namespaces | replace "--visibility=labels" $visibility | fromYaml).patches -}}
{{- if eq .target.kind $kind -}}{{- $found = concat $found (.patch | fromYamlArray) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{- /* The flags of kubedns for the values external, tenants, nearest, zonal and transfer, as a list. */ -}}
{{- define "kubedns.flags" -}}
{{- $flags := list -}}
{{- with .Values.external -}}
{{- if .zones -}}
{{- $flags = append $flags (printf "--external-zones=%s" (join "," .zones)) -}}
{{- with .ns }}{{- $flags = append $flags (printf "--external-ns=%s" (join "," .)) -}}{{- end -}}
{{- /* Clients outside query the central pods. */ -}}
{{- if and .address (not $.local) }}{{- $flags = append $flags (printf "--external-address=%s" .address) -}}{{- end -}}
{{- if .headless }}{{- $flags = append $flags "--external-headless" -}}{{- end -}}
{{- with .refuse }}{{- $flags = append $flags (printf "--external-refuse=%s" (join "," .)) -}}{{- end -}}
{{- else if or .ns .address .headless .refuse -}}
{{- fail "external.zones is empty: name the zones" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tenants.enabled (ne .Values.tenants.unknown "none") -}}
{{- $flags = append $flags (printf "--visibility-unknown=%s" .Values.tenants.unknown) -}}
{{- end -}}
{{- if .Values.nearest.only -}}
{{- if not .Values.nearest.enabled }}{{- fail "nearest.only: needs nearest.enabled" -}}{{- end -}}
{{- $flags = append $flags "--nearest-only" -}}
{{- end -}}
{{- if .Values.zonal }}{{- $flags = append $flags "--zonal" -}}{{- end -}}
{{- with .Values.transfer -}}
{{- if and .to $.local -}}
{{- /* Pods on every node do not know single endpoints, so their zones are incomplete. Secondaries query the central pods. */ -}}
{{- else if .to -}}
{{- $flags = append $flags (printf "--transfer-to=%s" (join "," .to)) -}}
{{- with .notify }}{{- $flags = append $flags (printf "--transfer-notify=%s" (join "," .)) -}}{{- end -}}
{{- with .journal }}{{- $flags = append $flags (printf "--transfer-journal=%s" .) -}}{{- end -}}
{{- if .keySecret }}{{- $flags = append $flags "--transfer-key=/etc/kubedns-transfer/keys" -}}{{- end -}}
{{- else if or .notify .journal .keySecret -}}
{{- fail "transfer.to is empty: name the secondaries" -}}
{{- end -}}
{{- end -}}
{{- toYaml $flags -}}
{{- end -}}

{{- /* Settings in `servers` that would change an answer, as a list of sentences. The chart does not read a Corefile. (list $) */ -}}
{{- define "kubedns.untranslated" -}}
{{- $domain := trimSuffix "." .Values.clusterDomain -}}
{{- $found := list -}}
{{- $harmless := list "errors" "health" "ready" "prometheus" "cache" "loop" "reload" "loadbalance" "log" "debug" "pprof" "cancel" "bufsize" -}}
{{- range $server := .Values.servers -}}
{{- range $zone := $server.zones -}}
{{- if not (has (toString $zone.zone) (list "." "")) -}}{{- $found = append $found (printf "a server for the zone %q" (toString $zone.zone)) -}}{{- end -}}
{{- if has (toString $zone.scheme) (list "tls://" "https://" "grpc://" "quic://") -}}{{- $found = append $found (printf "a server with the scheme %q" (toString $zone.scheme)) -}}{{- end -}}
{{- end -}}
{{- range $plugin := $server.plugins -}}
{{- $words := splitList " " (trim (regexReplaceAll "\\s+" (toString (default "" $plugin.parameters)) " ")) -}}
{{- if eq $plugin.name "kubernetes" -}}
{{- if ne (trimSuffix "." (first $words)) $domain -}}{{- $found = append $found (printf "the domain %q, where clusterDomain is %q" (first $words) $domain) -}}{{- end -}}
{{- else if eq $plugin.name "forward" -}}
{{- if ne (join " " $words) ". /etc/resolv.conf" -}}{{- $found = append $found (printf "the plugin forward with %q" (join " " $words)) -}}{{- end -}}
{{- else if not (has $plugin.name $harmless) -}}{{- $found = append $found (printf "the plugin %s" $plugin.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.extraConfig }}{{- $found = append $found "extraConfig" -}}{{- end -}}
{{- toYaml (uniq $found) -}}
{{- end -}}

{{- /* Refuses a change of the topology that Kubernetes would refuse halfway, or that would stop the only pods that answer. `helm template`
and `helm rollback` do not see the cluster. */ -}}
{{- define "kubedns.change" -}}
{{- $name := include "kubedns.name" . -}}
{{- $app := include "kubedns.app" . -}}
{{- $topology := .Values.topology -}}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace $name -}}
{{- $daemonset := lookup "apps/v1" "DaemonSet" .Release.Namespace (printf "%s-node" $name) -}}
{{- $was := "" -}}
{{- if $daemonset -}}
{{- $was = ternary "node" "node-local" (eq (dig "spec" "selector" "matchLabels" "k8s-app" "" $daemonset) $app) -}}
{{- end -}}
{{- if and (hasPrefix "node" $topology) $was (ne $topology $was) -}}
{{- fail (printf "topology: %s: the DaemonSet %s-node is that of topology %s, and Kubernetes does not change its selector: change to front first" $topology $name $was) -}}
{{- end -}}
{{- if and (eq $was "node") (ne $topology "node") (eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $daemonset) .Release.Name)
    (not (dig "status" "readyReplicas" 0 $deployment)) -}}
{{- fail (printf "topology: %s: the pods on every node would stop before the Deployment %s has a ready pod: first set topology: node with node.keepDeployment: true, and wait until the Deployment is ready" $topology $name) -}}
{{- end -}}
{{- if and (eq $topology "node") (not .Values.node.keepDeployment) (eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $deployment) .Release.Name)
    (or (not $daemonset) (lt (dig "status" "numberReady" 0 $daemonset | int) (dig "status" "desiredNumberScheduled" 0 $daemonset | int))) -}}
{{- fail (printf "topology: node: the pods of the Deployment %s would stop before there is a ready pod on every node: first set node.keepDeployment: true, and wait until the DaemonSet %s-node is ready" $name $name) -}}
{{- end -}}
{{- end -}}

{{- /* Refuses values that prevent kubedns from starting, and values without effect. */ -}}
{{- define "kubedns.refusals" -}}
{{- $v := .Values -}}
{{- $untranslated := include "kubedns.untranslated" . | fromYamlArray -}}
{{- if and $untranslated (not $v.ignoreServers) -}}
{{- fail (printf "servers: this chart does not read a Corefile, and would lose these settings: %s. Translate them: `kubectl -n kube-system get configmap coredns -o yaml | kubedns-migrate -` prints the values to set; then set ignoreServers=true" (join "; " $untranslated)) -}}
{{- end -}}
{{- if eq (include "kubedns.name" .) "coredns" -}}
{{- fail "fullnameOverride, deployment.name: \"coredns\" is the name of CoreDNS's Deployment, and its container would stay in the pods: remove the value (the name is then kube-dns), or choose another name" -}}
{{- end -}}
{{- if not (has $v.topology (list "classic" "front" "node" "node-local")) -}}
{{- fail (printf "topology: %s: must be classic, front, node or node-local" $v.topology) -}}
{{- end -}}
{{- if and (eq $v.topology "node-local") (not $v.isClusterService) -}}
{{- fail "topology: node-local: its pods answer at the address of the cluster's DNS: use front to try kubedns beside the current DNS" -}}
{{- end -}}
{{- if not (has $v.engine (list "dnsmasq" "unbound")) -}}
{{- fail (printf "engine: %s: must be dnsmasq or unbound" $v.engine) -}}
{{- end -}}
{{- if and $v.upstreamTrustBundle (ne $v.engine "unbound") -}}
{{- fail "upstreamTrustBundle: dnsmasq cannot encrypt queries: set engine=unbound" -}}
{{- end -}}
{{- if and (eq (toString $v.deployment.dnsPolicy) "None") (not $v.deployment.dnsConfig) -}}
{{- fail "deployment.dnsPolicy: None needs deployment.dnsConfig.nameservers, the upstream servers" -}}
{{- end -}}
{{- if and $v.isClusterService (hasPrefix "ClusterFirst" (toString $v.deployment.dnsPolicy)) -}}
{{- fail (printf "deployment.dnsPolicy: %s: the DNS pods would forward to themselves: Default uses the upstream servers of the node, None those of deployment.dnsConfig" $v.deployment.dnsPolicy) -}}
{{- end -}}
{{- if and $v.hostsNamespaces (not (kindIs "slice" $v.hostsNamespaces)) -}}
{{- fail (printf "hostsNamespaces: %v: not a list: hostsNamespaces: [dns-names]" $v.hostsNamespaces) -}}
{{- end -}}
{{- range $namespace := $v.hostsNamespaces -}}
{{- if not (and (kindIs "string" $namespace) (regexMatch "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(:[A-Za-z0-9.-]+)*$" (toString $namespace))) -}}
{{- fail (printf "hostsNamespaces: %v: not a namespace's name (a string of a-z, 0-9 and -), or NAME:DOMAIN" $namespace) -}}
{{- end -}}
{{- end -}}
{{- if ne (len $v.hostsNamespaces) (len (uniq $v.hostsNamespaces)) -}}
{{- fail (printf "hostsNamespaces: %s: a namespace is listed twice" (join "," $v.hostsNamespaces)) -}}
{{- end -}}
{{- if gt (len $v.hostsNamespaces) 8 -}}
{{- fail (printf "hostsNamespaces: %s: more than 8 namespaces" (join "," $v.hostsNamespaces)) -}}
{{- end -}}
{{- if and (eq $v.topology "classic") (or $v.clientPods $v.tenants.enabled $v.nearest.enabled) -}}
{{- fail (printf "%s: in the classic topology dnsmasq is kubedns's only client: use topology front or node" (ternary "tenants.enabled" (ternary "nearest.enabled" "clientPods" $v.nearest.enabled) $v.tenants.enabled)) -}}
{{- end -}}
{{- if and (eq $v.topology "classic") $v.hostsNamespaces -}}
{{- fail "hostsNamespaces: in the classic topology dnsmasq sends these names to other servers: use topology front or node" -}}
{{- end -}}
{{- if and $v.tenants.enabled (or $v.external.zones $v.transfer.to $v.multicluster.enabled) -}}
{{- fail "tenants.enabled: external.zones, transfer.to and multicluster.enabled give names to clients without a namespace: use another release for them (isClusterService=false)" -}}
{{- end -}}
{{- if not (has $v.tenants.unknown (list "none" "all")) -}}
{{- fail (printf "tenants.unknown: %s: must be none or all" $v.tenants.unknown) -}}
{{- end -}}
{{- if and (eq $v.topology "node") $v.transfer.to -}}
{{- fail "transfer.to: the pods on every node do not know single endpoints, so their zones are incomplete: use another release (isClusterService=false)" -}}
{{- end -}}
{{- end -}}

{{- /* An object with the labels and annotations that all objects have: (list $ object name app). */ -}}
{{- define "kubedns.print" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $_ := set $object.metadata "name" (index . 2) -}}
{{- if not (has $object.kind (list "ClusterRole" "ClusterRoleBinding" "PriorityLevelConfiguration" "FlowSchema" "ValidatingAdmissionPolicy"
    "ValidatingAdmissionPolicyBinding")) -}}
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
{{- if contains "://" $registry -}}{{- fail (printf "registry: %s: image names have no scheme" $registry) -}}{{- end -}}
{{- $name := $image.name | default (ternary "nanny-unbound" "nanny" (eq $root.Values.engine "unbound")) -}}
{{- printf "%s/%s:%s" $registry $name ($image.tag | default $root.Chart.AppVersion) -}}
{{- if $image.digest -}}{{- printf "@%s" $image.digest -}}{{- end -}}
{{- end -}}

{{- /* Refuses a label selector that selects no pod of the chart: (list LABELS SELECTOR VALUE PART). Such a selector is often left from the
coredns chart, and then the rule has no effect. With PART, refuses only selectors for a value that contains PART: a pod may also keep away
from other pods. */ -}}
{{- define "kubedns.selector" -}}
{{- $labels := index . 0 }}{{- $selector := index . 1 | default dict }}{{- $value := index . 2 }}{{- $part := index . 3 }}
{{- range $key, $text := $selector.matchLabels }}
{{- if and (contains $part (toString $text)) (ne (toString (get $labels $key)) (toString $text)) }}
{{- fail (printf "%s: its labelSelector has %s: %v, which no pod of this chart has, so the rule would have no effect: use k8s-app: %s" $value $key $text (get $labels "k8s-app")) }}
{{- end }}
{{- end }}
{{- range $selector.matchExpressions }}
{{- if and (eq .operator "In") (not (has (get $labels .key) .values)) (contains $part (join " " .values)) }}
{{- fail (printf "%s: its labelSelector has %s in (%s), which no pod of this chart has, so the rule would have no effect: use k8s-app: %s" $value .key (join ", " .values) (get $labels "k8s-app")) }}
{{- end }}
{{- end }}
{{- end -}}
