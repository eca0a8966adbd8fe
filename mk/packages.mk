# Targets to publish: Debian packages, releases, the Helm chart and the Prometheus rules. images.mk has the images.

# Debian packages are built in a copy of the files in git, so that the build writes no file into the tree.
PACKAGES_deb := build-essential debhelper dpkg-dev fakeroot lintian
# The packages are for the Debian release of this machine, 12 or 13, and are tested on this machine.
CODENAME := $(shell . /etc/os-release && echo $${VERSION_CODENAME:-trixie})
deb: ## build the Debian packages into $(BUILD)/deb
	@$(call deps,build deb)
	@rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb/kubedns-$(VERSION)
	@# -m: the copies get the current time. In the packages, times after the changelog's date become the changelog's date.
	@git ls-files -z | tar -c --null -T - | tar -xm -C $(BUILD)/deb/kubedns-$(VERSION)
	@cd $(BUILD)/deb/kubedns-$(VERSION)/debian && head -1 changelog | grep -qF "($(VERSION))" || { { \
		printf 'kubedns (%s) $(CODENAME); urgency=medium\n\n  * Between two versions.\n\n -- kubedns <kubedns@localhost.localdomain>  %s\n\n' \
		"$(VERSION)" "$$(git -C $(CURDIR) log -1 --format=%cD)"; cat changelog; } >new && mv new changelog; }
	# BUILD must not reach the package's build, which has its own directory.
	cd $(BUILD)/deb/kubedns-$(VERSION) && env -u MAKEFLAGS -u BUILD dpkg-buildpackage -b -uc -us >../build.log 2>&1 || { tail -40 ../build.log; exit 1; }
	# A publisher puts their own address into debian/control and the changelog.
	lintian --fail-on error,warning --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog $(BUILD)/deb/*.changes
	@ls $(BUILD)/deb/*.deb
.PHONY: deb

release: ## write the committed source, chart, manifests, packages, images, SBOMs, release notes and checksums to $(BUILD)/release (SIGN=KEY or FILE.pem)
	@BUILD=$(BUILD) PYTHON=$(PYTHON) SIGN='$(SIGN)' sh conf/release.sh $(VERSION) $(BUILD)/release
.PHONY: release

# Programs from Go modules, for publishing and for its test. The test's registry is distribution.
ORAS := $(BUILD)/tools/oras
COSIGN := $(BUILD)/tools/cosign
REGISTRY_SERVER := $(BUILD)/tools/registry
ACTIONLINT := $(BUILD)/tools/actionlint
$(ORAS): MODULE = oras.land/oras/cmd/oras@v1.3.6
$(COSIGN): MODULE = github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
$(REGISTRY_SERVER): MODULE = github.com/distribution/distribution/v3/cmd/registry@v3.1.2
$(ACTIONLINT): MODULE = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
$(ORAS) $(COSIGN) $(REGISTRY_SERVER) $(ACTIONLINT):
	@command -v go >/dev/null || { echo "make: $(@F) needs Go 1.26: https://go.dev/dl/" >&2; exit 1; }
	@mkdir -p $(@D)
	GOBIN=$(abspath $(@D)) GOFLAGS="-buildvcs=false -p=2" CGO_ENABLED=0 go install -trimpath $(MODULE)

actionlint: $(ACTIONLINT) ## build the checker of .github/workflows for `make lint` (Go)
.PHONY: actionlint

PACKAGES_publish := git openssh-client openssl python3 skopeo
publish: ## push the release in $(BUILD)/release to REGISTRY=HOST/PATH and sign it with SIGN=FILE.pem or keyless; writes $(BUILD)/install.md (Go)
	@$(call deps,publish)
	@$(again) $(ORAS) $(COSIGN) helm-cli
	@ORAS=$(abspath $(ORAS)) COSIGN=$(abspath $(COSIGN)) HELM=$(abspath $(HELM_CLI)) SIGN='$(SIGN)' \
		sh conf/publish.sh $(BUILD)/release '$(REGISTRY)' $(BUILD)/install.md
.PHONY: publish

test-publish: ## test publishing with a registry on this machine (Go)
	@$(call deps,build run test publish)
	@$(again) helm-cli $(ORAS) $(COSIGN) $(REGISTRY_SERVER)
	@TOOLS=$(abspath $(BUILD)/tools) HELM_CLI=$(abspath $(HELM_CLI)) $(PYTHON) -m pytest -q -p no:cacheprovider tests/publish $(PYTEST_ARGS)
.PHONY: test-publish

test-deb: ## test the Debian packages in a container with systemd (docker; after make deb)
	@$(if $(filter kubedns-base:%,$(BASE)),$(call deps,image))
	@BUILD=$(BUILD) BASE=$(if $(filter kubedns-base:%,$(BASE)),kubedns-base:$(CODENAME),$(BASE)) bash tests/packages/run.sh
.PHONY: test-deb

# Helm warns about symbolic links, so the chart gets copies of the files. By default the chart uses the images of this commit. `make images`
# uses the same tag.
chart: ## write the Helm chart to $(BUILD)/chart/kubedns
	@rm -rf $(BUILD)/chart && mkdir -p $(BUILD)/chart
	@cp -RL conf/helm/kubedns $(BUILD)/chart/
	@sed -i 's/^appVersion: .*/appVersion: $(IMAGE_TAG)/' $(BUILD)/chart/kubedns/Chart.yaml
	@echo $(BUILD)/chart/kubedns
.PHONY: chart

# Writes the rules as an object of the Prometheus operator. A test fails when the object is out of date.
RULES := conf/prometheus/rules.yaml
PROMETHEUSRULE := conf/kubernetes/components/prometheus/prometheusrule.yaml
prometheusrule: ## write the PrometheusRule of conf/kubernetes from conf/prometheus/rules.yaml
	@{ echo "# Made from $(RULES) by \`make prometheusrule\`; edit that."; \
	printf '%s\n' 'apiVersion: monitoring.coreos.com/v1' 'kind: PrometheusRule' 'metadata:' '  name: kube-dns' '  namespace: kube-system' \
		'  labels:' '    k8s-app: kube-dns' '    release: RELEASE' 'spec:'; \
	sed -e '/^#/d' -e 's/^./  &/' $(RULES); } >$(PROMETHEUSRULE)
.PHONY: prometheusrule
