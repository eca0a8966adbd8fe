# Tests against a real control plane, and the tools in Go that tests use: CoreDNS, Helm's engine, SPDX's reader.

# CoreDNS itself, from its Go module; COREDNS=FILE in the environment names another.
COREDNS ?= $(BUILD)/coredns
$(COREDNS):
	@command -v go >/dev/null || { echo "make: CoreDNS needs Go 1.26: https://go.dev/dl/" >&2; exit 1; }
	@mkdir -p $(@D)
	GOBIN=$(abspath $(@D)) GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 go install github.com/coredns/coredns@v1.14.7

CORPUS ?= tests/migrate/corpus
test-corpus: ## serve Corefiles (CORPUS=FOLDER) by CoreDNS and by what kubedns-migrate makes of them, and compare (Go, kubectl, root)
	@$(call deps,build run test)
	@$(again) -s all
	@$(again) $(COREDNS)
	@BUILD=$(BUILD) $(PYTHON) tests/migrate/corpus.py $(CORPUS_ARGS) $(CORPUS)
.PHONY: test-corpus

# A real API server and its controllers: a Go program, for tests against a cluster only. Minutes the first time, then seconds.
CTL := $(BUILD)/controlplane/ctl
KUBE_VERSION := v1.36.3
$(CTL): $(wildcard tests/controlplane/*.go tests/controlplane/go.*)
	@command -v go >/dev/null || { echo "make: tests against a cluster need Go 1.26: https://go.dev/dl/" >&2; exit 1; }
	@mkdir -p $(@D)
	cd tests/controlplane && GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 go build -trimpath \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION)" -o $(abspath $@) .

controlplane: $(CTL)
.PHONY: controlplane

# kube-apiserver alone of other versions, to run in place of the program's own: one source, and a k8s-VERSION.mod for each beside it, which
# older/modfile.sh writes.
KUBE_VERSIONS ?= 1.26 1.33 1.37
APISERVERS = $(KUBE_VERSIONS:%=$(BUILD)/controlplane/apiserver-%)
$(BUILD)/controlplane/apiserver-%: tests/controlplane/older/k8s-%.mod tests/controlplane/older/k8s-%.sum tests/controlplane/older/main.go
	@command -v go >/dev/null || { echo "make: tests against a cluster need Go 1.26: https://go.dev/dl/" >&2; exit 1; }
	@mkdir -p $(@D)
	cd tests/controlplane/older && version=$$(sed -n 's|.*k8s.io/kubernetes v\([0-9.]*\)$$|v\1|p' k8s-$*.mod) && \
		GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 nice go build -trimpath -tags providerless -modfile=k8s-$*.mod \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$version -X k8s.io/client-go/pkg/version.gitVersion=$$version" \
		-o $(abspath $@) .

test-versions: $(APISERVERS) ## objects and kubedns against API servers of KUBE_VERSIONS (Go, root; 10 minutes a version the first time)
	@$(call deps,build run test cluster)
	@$(again) all controlplane helm
	@CTL=$(abspath $(CTL)) APISERVERS="$(abspath $(APISERVERS))" $(PYTHON) -m pytest -q -o cache_dir=$(abspath $(BUILD))/versions-cache \
		tests/cluster/test_versions.py $(PYTEST_ARGS)
.PHONY: test-versions

vet: ## go vet over the control plane's program (needs Go; minutes the first time)
	cd tests/controlplane && GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 go vet -trimpath .
.PHONY: vet

# Helm's own engine, for the tests of the chart: a Go program too.
HELM := $(BUILD)/helm
$(HELM): $(wildcard tests/helm/*.go tests/helm/go.*)
	@command -v go >/dev/null || { echo "make: the chart's tests need Go 1.26: https://go.dev/dl/" >&2; exit 1; }
	@mkdir -p $(@D)
	cd tests/helm && GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 go build -trimpath -o $(abspath $@) .

# SPDX's own library reads what is said to be in the images.
SPDX := $(BUILD)/spdx
$(SPDX): $(wildcard tests/spdx/*.go tests/spdx/go.*)
	@command -v go >/dev/null || { echo "make: the SBOMs' tests need Go 1.26: https://go.dev/dl/" >&2; exit 1; }
	@mkdir -p $(@D)
	cd tests/spdx && GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 go build -trimpath -o $(abspath $@) .

spdx: $(SPDX) ## build SPDX's reader, with which the tests read the SBOMs (needs Go)
.PHONY: spdx

helm: $(HELM) ## build Helm's engine, with which the tests render the chart (needs Go)
.PHONY: helm

test-images:
	$(MAKE) --no-print-directory images IMAGE_TAG=$(MANIFEST_TAG)
	for t in glibc musl dnsmasq; do \
		docker build -q --force-rm --build-arg BASE=$(BASE) --target $$t -t dnst-$$t tests/cluster || exit 1; done
.PHONY: test-images

# So many control planes at a time, each with a network and files of tests of its own: most of the time they wait.
CLUSTER_TESTS ?= tests/cluster
CLUSTER_JOBS ?= 3
test-cluster: ## test the images and manifests against a real control plane (docker, Go, root)
	@$(call deps,build run test cluster)
	@$(again) all controlplane helm spdx test-images $(COREDNS)
	@export CTL=$(abspath $(CTL)) COREDNS=$(abspath $(COREDNS)) CLUSTER_REPORT=$(BUILD)/cluster-report.txt; \
	run="$(PYTHON) -m pytest -q -o cache_dir=$(abspath $(BUILD))/cluster-cache"; rm -rf $(BUILD)/cluster-cache; \
	$$run --durations=15 -n $(CLUSTER_JOBS) --dist loadfile $(CLUSTER_TESTS) $(PYTEST_ARGS) && exit; [ $$? = 1 ] || exit 1; \
	echo "what failed beside others, again, alone:"; $$run -n 0 --last-failed $(CLUSTER_TESTS) $(PYTEST_ARGS)
.PHONY: test-cluster
