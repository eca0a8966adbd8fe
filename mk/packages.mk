# What is published: Debian packages, releases, the Helm chart and the Prometheus rules. The images are in images.mk.

# Debian packages, of what git knows: built in a copy, so that nothing of theirs is left in the tree.
PACKAGES_deb := debhelper dpkg-dev fakeroot lintian
deb: ## build the Debian packages into $(BUILD)/deb
	@$(call deps,build deb)
	@rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb/kubedns-$(VERSION)
	@# -m: files are of now, whenever they were checked out, and what is younger than the packages' date gets that.
	@git ls-files -z | tar -c --null -T - | tar -xm -C $(BUILD)/deb/kubedns-$(VERSION)
	@cd $(BUILD)/deb/kubedns-$(VERSION)/debian && head -1 changelog | grep -qF "($(VERSION))" || { { \
		printf 'kubedns (%s) bookworm; urgency=medium\n\n  * Between two versions.\n\n -- kubedns <kubedns@localhost.localdomain>  %s\n\n' \
		"$(VERSION)" "$$(git log -1 --format=%cD)"; cat changelog; } >new && mv new changelog; }
	# BUILD is this make's: theirs is in their own copy.
	cd $(BUILD)/deb/kubedns-$(VERSION) && env -u MAKEFLAGS -u BUILD dpkg-buildpackage -b -uc -us >../build.log 2>&1 || { tail -40 ../build.log; exit 1; }
	# Whoever publishes the packages puts an address of his own into debian/control and the changelog.
	lintian --fail-on error,warning --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog $(BUILD)/deb/*.changes
	@ls $(BUILD)/deb/*.deb
.PHONY: deb

release: ## source, chart, manifests, packages, images, SBOMs and checksums of what is committed in $(BUILD)/release (SIGN=KEY)
	@BUILD=$(BUILD) PYTHON=$(PYTHON) SIGN='$(SIGN)' sh conf/release.sh $(VERSION) $(BUILD)/release
.PHONY: release

test-deb: ## install, ask, upgrade and purge the Debian packages in a container with systemd (docker, after make deb)
	@BUILD=$(BUILD) BASE=$(BASE) bash tests/packages/run.sh
.PHONY: test-deb

# Helm warns of each link that it follows. The images of this commit are the default: `make images` gives them the same tag.
chart: ## the Helm chart in $(BUILD)/chart/kubedns, with files in the place of links
	@rm -rf $(BUILD)/chart && mkdir -p $(BUILD)/chart
	@cp -RL conf/helm/kubedns $(BUILD)/chart/
	@sed -i 's/^appVersion: .*/appVersion: $(IMAGE_TAG)/' $(BUILD)/chart/kubedns/Chart.yaml
	@echo $(BUILD)/chart/kubedns
.PHONY: chart

# The Prometheus operator's object around the rules, which are written once; a test says when it is old.
RULES := conf/prometheus/rules.yaml
PROMETHEUSRULE := conf/kubernetes/components/prometheus/prometheusrule.yaml
prometheusrule: ## write the PrometheusRule of conf/kubernetes from conf/prometheus/rules.yaml
	@{ echo "# Made from $(RULES) by \`make prometheusrule\`; edit that."; \
	printf '%s\n' 'apiVersion: monitoring.coreos.com/v1' 'kind: PrometheusRule' 'metadata:' '  name: kube-dns' '  namespace: kube-system' \
		'  labels:' '    k8s-app: kube-dns' '    release: RELEASE' 'spec:'; \
	sed -e '/^#/d' -e 's/^./  &/' $(RULES); } >$(PROMETHEUSRULE)
.PHONY: prometheusrule
