# Tests against a real control plane, and the Go tools for tests: CoreDNS, Helm's engine, an SPDX reader.

# The rules of the Go programs begin with $(needs_go). $(call go,FOLDER,ARGUMENTS) runs go in a folder.
needs_go = @command -v go >/dev/null || { echo "make: $@ needs Go 1.26: https://go.dev/dl/" >&2; exit 1; }; mkdir -p $(@D)
go = cd $(1) && GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 go $(2)

# CoreDNS, built from its Go module. COREDNS=FILE in the environment selects another binary.
COREDNS ?= $(BUILD)/coredns
COREDNS_VERSION := v1.14.7
$(COREDNS):
	$(needs_go)
	export GOBIN=$(abspath $(@D)) && $(call go,.,install github.com/coredns/coredns@$(COREDNS_VERSION))

CORPUS ?= tests/migrate/corpus
test-corpus: ## compare CoreDNS with kubedns-migrate's translation of Corefiles (CORPUS=FOLDER; Go, kubectl, root)
	@$(call deps,build run test)
	@$(again) -s all
	@$(again) $(COREDNS)
	@BUILD=$(BUILD) $(PYTHON) tests/migrate/corpus.py --coredns $(abspath $(COREDNS)) $(CORPUS_ARGS) $(CORPUS)
.PHONY: test-corpus

# The results of a seed are kept, so a second run with this seed continues the first (tests/migrate/README.md).
RANDOM_COREFILES ?= 20
test-random-corefiles: ## the same for random Corefiles (RANDOM_COREFILES=N, SEED=N continues; Go, kubectl, root)
	@$(call deps,build run test)
	@$(again) -s all
	@$(again) $(COREDNS)
	@seed=$(or $(SEED),$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')) && files=$(BUILD)/random/$$seed && rm -rf $$files && \
		$(PYTHON) tests/migrate/random_corefiles.py --seed $$seed --count $(RANDOM_COREFILES) $$files && \
		BUILD=$(BUILD) $(PYTHON) tests/migrate/corpus.py --coredns $(abspath $(COREDNS)) --results $$files.results --directory $$files.work $(CORPUS_ARGS) $$files
.PHONY: test-random-corefiles

# A real API server, its controllers and all other programs of Kubernetes as one Go program, only for the cluster tests. The first build takes
# minutes, later builds take seconds.
CTL := $(BUILD)/controlplane/ctl
KUBE_VERSION := v1.36.3
kube_ldflags = -s -w $(foreach v,gitVersion=$(KUBE_VERSION) gitMajor=$(word 1,$(subst ., ,$(KUBE_VERSION:v%=%))) gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION))),-X k8s.io/component-base/version.$v)
$(CTL): $(wildcard tests/controlplane/*.go tests/controlplane/go.*)
	$(needs_go)
	$(call go,tests/controlplane,build -trimpath -ldflags "$(kube_ldflags)" -o $(abspath $@) .)

controlplane: $(CTL)
.PHONY: controlplane

# The kube-apiserver of other Kubernetes versions. A test can run it in place of the kube-apiserver in the program above. All versions are
# built from the same main.go. Each version has its own k8s-VERSION.mod, which older/modfile.sh writes.
KUBE_VERSIONS ?= 1.26 1.33 1.37
APISERVERS = $(KUBE_VERSIONS:%=$(BUILD)/controlplane/apiserver-%)
$(BUILD)/controlplane/apiserver-%: tests/controlplane/older/k8s-%.mod tests/controlplane/older/k8s-%.sum tests/controlplane/older/main.go
	$(needs_go)
	cd tests/controlplane/older && version=$$(sed -n 's|.*k8s.io/kubernetes v\([0-9.]*\)$$|v\1|p' k8s-$*.mod) && \
		GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 nice go build -trimpath -tags providerless -modfile=k8s-$*.mod \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$version -X k8s.io/client-go/pkg/version.gitVersion=$$version" \
		-o $(abspath $@) .

test-versions: $(APISERVERS) ## test with the API servers of KUBE_VERSIONS (Go, root; first time 10 minutes per version)
	@$(call deps,build run test cluster)
	@$(again) all controlplane helm
	@CTL=$(abspath $(CTL)) APISERVERS="$(abspath $(APISERVERS))" $(PYTHON) -m pytest -q -o cache_dir=$(abspath $(BUILD))/versions-cache \
		tests/cluster/test_versions.py $(PYTEST_ARGS)
.PHONY: test-versions

vet: ## go vet of the control plane's program (Go; takes minutes the first time)
	$(call go,tests/controlplane,vet -trimpath .)
.PHONY: vet

# Helm's engine as a Go program, for the tests of the chart.
HELM := $(BUILD)/helm
$(HELM): $(wildcard tests/helm/*.go tests/helm/go.*)
	$(needs_go)
	$(call go,tests/helm,build -trimpath -o $(abspath $@) .)

# Helm itself, of the engine's version, for the switch with Helm.
HELM_CLI := $(BUILD)/helm-cli/helm
$(HELM_CLI): tests/helm/go.mod
	$(needs_go)
	export GOBIN=$(abspath $(@D)) && $(call go,.,install -trimpath helm.sh/helm/v3/cmd/helm@$$(sed -n 's|^require helm.sh/helm/v3 ||p' tests/helm/go.mod))

helm-cli: $(HELM_CLI)
.PHONY: helm-cli

# SPDX's own library reads the SBOMs of the images.
SPDX := $(BUILD)/spdx
$(SPDX): $(wildcard tests/spdx/*.go tests/spdx/go.*)
	$(needs_go)
	$(call go,tests/spdx,build -trimpath -o $(abspath $@) .)

spdx: $(SPDX) ## build the SPDX reader for the tests of the SBOMs (Go)
.PHONY: spdx

helm: $(HELM) ## build Helm's engine for the tests of the chart (Go)
.PHONY: helm

# The images under the tag in the manifests. With arm64 images, the tests run their programs under qemu-user.
PACKAGES_arm64 := qemu-user-static
test-images:
	@$(if $(filter arm64,$(ARCHITECTURES)),$(call deps,arm64))
	$(MAKE) --no-print-directory images IMAGE_TAG=$(MANIFEST_TAG)
.PHONY: test-images

# Number of control planes that run at the same time. Each control plane has its own network and its own test files. The tests spend most of
# their time waiting.
CLUSTER_TESTS ?= $(wildcard tests/cluster/test_*.py)
CLUSTER_JOBS ?= 3
test-cluster: ## test the images, and the manifests against a real control plane (docker, Go, root)
	@$(call deps,build run test cluster)
	@$(again) all controlplane helm $(COREDNS) $(if $(filter %/test_images.py,$(CLUSTER_TESTS)),spdx test-images)
	@export CTL=$(abspath $(CTL)) COREDNS=$(abspath $(COREDNS)) CLUSTER_REPORT=$(BUILD)/cluster-report.txt; \
	$(PYTHON) -m pytest -q -p no:cacheprovider --durations=15 -n $(CLUSTER_JOBS) --dist loadfile $(CLUSTER_TESTS) $(PYTEST_ARGS)
.PHONY: test-cluster

# A cluster with real nodes: tests/cluster/nodes/README.md.
NODES := $(BUILD)/nodes
NODE_LINKS := $(addprefix $(NODES)/bin/,ctl kubectl kubeadm kubelet kube-proxy)
$(NODE_LINKS): | $(CTL)
	@mkdir -p $(@D)
	ln -sf $(abspath $(CTL)) $@
$(NODES)/bin/coredns: | $(COREDNS)
	@mkdir -p $(@D)
	ln -sf $(abspath $(COREDNS)) $@

CONTAINERD := github.com/containerd/containerd/v2
$(NODES)/bin/containerd: tests/cluster/nodes/containerd/go.mod
	$(needs_go)
	$(call go,$(<D),build -trimpath -ldflags "-s -w -X $(CONTAINERD)/version.Version=$$(sed -n 's|^require $(CONTAINERD) ||p' $(abspath $<))" \
		-o $(abspath $(@D))/ $(foreach p,containerd containerd-shim-runc-v2 ctr,$(CONTAINERD)/cmd/$p))

# The engine that enforces network policies, with the libraries of the control plane's version, and its own manifest.
POLICIES := sigs.k8s.io/kube-network-policies
$(NODES)/images/kube-network-policies: tests/cluster/nodes/policies/go.mod
	$(needs_go)
	$(call go,$(<D),build -trimpath -o $(abspath $@) $(POLICIES)/cmd)
	cp -f "$$(cd $(<D) && go list -m -f '{{.Dir}}' $(POLICIES))/install.yaml" $(NODES)/kube-network-policies.yaml

# The folder of Kubernetes' module. $(call node_image,TARGET,NAME) builds an image of the Dockerfile.
kubernetes = $$(cd tests/controlplane && go list -m -f '{{.Dir}}' k8s.io/kubernetes)
node_image = docker build -q --force-rm --build-arg BASE=$(BASE) --target $(1) -t $(2) $(NODES)/images
node-images: $(COREDNS) $(NODES)/images/kube-network-policies
	@mkdir -p $(NODES)/images
	cp -f tests/cluster/nodes/Dockerfile tests/cluster/nodes/client.c $(COREDNS) $(kubernetes)/build/pause/linux/pause.c $(NODES)/images
	$(call node_image,glibc,dnst-glibc)
	$(call node_image,musl,dnst-musl)
	$(call node_image,dnsmasq,dnst-dnsmasq)
	$(call node_image,policies,bed.example/kube-network-policies)
	$(call node_image,pause,registry.k8s.io/pause:3.10.2)
	$(call node_image,coredns,registry.k8s.io/coredns/coredns:$(COREDNS_VERSION))
.PHONY: node-images

# Kubernetes' own tests, and the program and images of their pods.
$(NODES)/bin/e2e.test: tests/controlplane/go.mod
	$(needs_go)
	$(call go,tests/controlplane,test -c -trimpath -ldflags "$(kube_ldflags)" -o $(abspath $@) k8s.io/kubernetes/test/e2e)
$(NODES)/images/agnhost: tests/controlplane/go.mod
	$(needs_go)
	$(call go,tests/controlplane,build -trimpath -ldflags "-s -w" -o $(abspath $@) k8s.io/kubernetes/test/images/agnhost)

e2e-images: node-images $(NODES)/images/agnhost
	install -m 644 $(kubernetes)/test/images/agnhost/porter/localhost.crt $(kubernetes)/test/images/agnhost/porter/localhost.key $(NODES)/images
	$(call node_image,agnhost,registry.k8s.io/e2e-test-images/agnhost:2.63.0)
	$(call node_image,glibc-dns-testing,registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0)
.PHONY: e2e-images

# Builds parts one after the other, so that their times are meaningful.
timed_parts = for part in $(1); do begun=$$(date +%s); $(again) -s $$part || exit 1; echo "nodes: $$(($$(date +%s) - begun)) s for $${part%% *}"; done
nodes: ## build a cluster with real nodes (kubelet, kube-proxy, containerd), and print times and sizes (docker, Go, root)
	@$(call deps,build run test cluster nodes)
	@$(call timed_parts,$(CTL) $(NODES)/bin/containerd $(NODES)/bin/coredns $(NODES)/images/kube-network-policies test-images node-images "$(NODE_LINKS)")
	@du -shL $(NODES)/bin $(CTL) "$$(go env GOMODCACHE)" "$$(go env GOCACHE)" | sed 's/^/nodes: /'
.PHONY: nodes

# The tests run one after the other in one cluster. FAMILIES=ipv4 or ipv6 makes it one of a single family.
NODE_TESTS ?= $(filter-out %/test_e2e.py,$(wildcard tests/cluster/nodes/test_*.py))
test_on_nodes = BED=$(abspath $(NODES)) HELM_CLI=$(abspath $(HELM_CLI)) CLUSTER_REPORT=$(BUILD)/nodes-report.txt \
	$(PYTHON) -m pytest -q -p no:cacheprovider --durations=15 -n 0 $(1) $(PYTEST_ARGS)
test-nodes: nodes ## test pods on real nodes (docker, Go, root)
	@$(again) all helm-cli
	@$(call test_on_nodes,$(NODE_TESTS))
.PHONY: test-nodes

test-kubernetes: nodes ## run Kubernetes' own tests of DNS on real nodes: front, classic, and CoreDNS as the control (docker, Go, root)
	@$(call timed_parts,$(NODES)/bin/e2e.test e2e-images)
	@$(call test_on_nodes,tests/cluster/nodes/test_e2e.py)
.PHONY: test-kubernetes
