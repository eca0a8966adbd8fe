# One Makefile for the suite. `make help` lists the targets.

# From git, or of the source archive; given on the command line where neither is there, as in a package's build.
ifneq ($(origin VERSION),command line)
VERSION := $(shell sh conf/version.sh)
endif
BUILD ?= build
CC ?= cc
# Debian's own, which sees Debian's modules, before whatever else PATH has.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
prefix ?= /usr
sbindir ?= $(prefix)/sbin
mandir ?= $(prefix)/share/man
sysconfdir ?= /etc
datadir ?= $(prefix)/share

PROGRAMS := kubedns nanny sidecar
# A tool without an image of its own: its directory, and below the name of the program.
TOOLS := migrate
name_migrate := kubedns-migrate
name = $(or $(name_$(1)),$(1))

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
	-Wwrite-strings -Wcast-qual -Wvla $(WERROR)
# What the processor offers against overwritten return addresses goes by architecture; _FORTIFY_SOURCE needs optimisation.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
# Locals are zeroed before their first use, where the compiler can do it: a forgotten one holds nothing of an earlier caller's. Not on the way of
# a query, which has large arrays of which little is used: SRV sets cost ten times as much, and with the largest excepted a tenth more.
ZEROED := -ftrivial-auto-var-init=zero
ZEROED := $(if $(shell $(CC) $(ZEROED) -E -x c /dev/null >/dev/null 2>&1 && echo yes),$(ZEROED))
HARDENING ?= $(ZEROED) -fPIE -fstack-protector-strong -fstack-clash-protection \
	$(if $(filter x86_64-%,$(MACHINE)),-fcf-protection)$(if $(filter aarch64-%,$(MACHINE)),-mbranch-protection=standard) \
	$(if $(filter -O0,$(OPTIMISE) $(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
OPTIMISE ?= -O2 -g -ffunction-sections -fdata-sections
# GCC makes "rep movs" of a copy whose length it does not know, which takes longer to begin than the library's function to end.
STRINGS := -mmemcpy-strategy=libcall:-1:noalign -mmemset-strategy=libcall:-1:noalign
STRINGS := $(if $(shell $(CC) $(STRINGS) -E -x c /dev/null >/dev/null 2>&1 && echo yes),$(STRINGS))
CFLAGS_ALL = -std=c17 -D_GNU_SOURCE -D_LGPL_SOURCE -I. -MMD -MP \
	$(OPTIMISE) $(STRINGS) $(WARNINGS) $(HARDENING) $(SANITIZE) $(CFLAGS)
LDFLAGS_ALL = -pie -Wl,-z,relro,-z,now,--as-needed,--gc-sections $(SANITIZE) $(LDFLAGS)

# kubedns holds the cluster in many small blocks, and a change comes and goes in some hundred smaller ones. Sanitizers bring their own;
# `make BUILD=build-libc ALLOCATOR=` builds with libc's, in a directory of its own, for what is built already is not built again.
ALLOCATOR ?= $(if $(SANITIZE),,-lmimalloc)
LIBS_kubedns := -lnettle -lpcre2-8 -lfstrm -lprotobuf-c -lcurl-gnutls -ljson-c -lmicrohttpd -lurcu-memb -lurcu-common -lcares -lyaml -lseccomp -lpthread -lm
LIBS_nanny := -ljson-c -lmicrohttpd -lcares -lseccomp -lmnl
LIBS_sidecar := -ljson-c -lmicrohttpd -lseccomp -lm
LIBS_migrate := -ljson-c -lyaml
LIBS_treecache := -lurcu-memb -lurcu-common
LIBS_lib := -ljson-c -lmicrohttpd -lcares -lyaml -lseccomp

# A program is its directory: main.c beside what it is made of, in rooms where it is large; an archive a program, for the tests to link.
present := $(foreach p,$(PROGRAMS) $(TOOLS),$(if $(wildcard $(p)/main.c),$(p)))
dirs := lib treecache $(PROGRAMS) $(TOOLS)
objs = $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/main.c,$(foreach depth,* */* */*/*,$(wildcard $(1)/$(depth).c))))
archives := $(foreach d,kubedns nanny sidecar migrate treecache lib,$(if $(call objs,$(d)),$(BUILD)/$(d).a))
kubedns_archives := $(filter-out %/nanny.a %/sidecar.a %/migrate.a,$(archives))
treecache_archives := $(BUILD)/treecache.a $(BUILD)/lib.a
nanny_archives := $(BUILD)/nanny.a $(BUILD)/lib.a
sidecar_archives := $(BUILD)/sidecar.a $(BUILD)/lib.a
migrate_archives := $(BUILD)/migrate.a $(BUILD)/lib.a
lib_archives := $(BUILD)/lib.a
unit_tests := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))

all: $(foreach p,$(present),$(BUILD)/bin/$(call name,$(p))) ## build the programs
.PHONY: all

QUERY_PATH := $(BUILD)/kubedns/answer/%.o $(BUILD)/kubedns/serve/%.o $(BUILD)/treecache/%.o $(BUILD)/lib/wire.o
$(QUERY_PATH): ZEROED =

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -c -o $@ $<

ifeq ($(ALLOCATOR),-lmimalloc)
$(BUILD)/kubedns/main.o: CFLAGS_ALL += -DMIMALLOC
endif

# The page's style and script are part of the program (sidecar/page/assets.c).
$(BUILD)/sidecar/page/assets.o: sidecar/page/page.css sidecar/page/page.js

# Compiled again when the version is another, and linked before the archives, whose version.o is the tests'.
$(BUILD)/version: always
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
.PHONY: always
$(BUILD)/version.o: lib/version.c $(BUILD)/version Makefile
	$(CC) $(CFLAGS_ALL) -DVERSION='"$(VERSION)"' -c -o $@ $<

# dnstap's messages are described in dnstap.proto. What protoc-c makes of it is not ours to warn about.
DNSTAP := kubedns/dnstap/dnstap
$(BUILD)/$(DNSTAP).pb-c.c $(BUILD)/$(DNSTAP).pb-c.h &: $(DNSTAP).proto
	@mkdir -p $(@D)
	protoc-c --proto_path=. --c_out=$(BUILD) $<
$(BUILD)/$(DNSTAP).pb-c.o: $(BUILD)/$(DNSTAP).pb-c.c
	$(CC) $(CFLAGS_ALL) -w -c -o $@ $<
$(BUILD)/$(DNSTAP)_frame.o $(BUILD)/$(DNSTAP).pb-c.o: CFLAGS_ALL += -I$(BUILD)
$(BUILD)/$(DNSTAP)_frame.o: $(BUILD)/$(DNSTAP).pb-c.h
generated_kubedns := $(BUILD)/$(DNSTAP).pb-c.o

define archive
$(BUILD)/$(1).a: $(call objs,$(1)) $(generated_$(1))
	@rm -f $$@
	ar qcs $$@ $$^
endef
$(foreach d,$(dirs),$(eval $(call archive,$(d))))

define program
$(BUILD)/bin/$(call name,$(1)): $(BUILD)/$(1)/main.o $(BUILD)/version.o $(foreach d,$(1) treecache lib,$(if $(call objs,$(d)),$(BUILD)/$(d).a))
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $$@ $$^ $(2) $(LIBS_$(1))
endef
$(foreach p,$(present),$(eval $(call program,$(p),$(if $(filter kubedns,$(p)),$(ALLOCATOR)))))

# A unit test belongs to the program, or else the library, whose headers it includes, and is linked with that and what is below it
# alone. What several tests share is in files of tests/unit that are not called test_*.
unit_includes := $(shell awk -F'["/]' '/^.include "/ { print FILENAME ":" $$2 }' tests/unit/test_*.c | sort -u)
unit_owner = $(firstword $(foreach d,kubedns nanny sidecar migrate treecache,$(if $(filter tests/unit/$(1).c:$(d),$(unit_includes)),$(d))) lib)
unit_shared := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c)))

$(BUILD)/tests/unit/shared.a: $(unit_shared)
	@rm -f $@
	ar rcs $@ $^

define unit_test
$(BUILD)/tests/unit/$(1): $(BUILD)/tests/unit/$(1).o $(BUILD)/tests/unit/shared.a $($(2)_archives)
	$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$^ -lcmocka -lldns $(LIBS_$(2))
endef
$(foreach t,$(unit_tests),$(eval $(call unit_test,$(notdir $(t)),$(call unit_owner,$(notdir $(t))))))

archives: $(archives) ## build the parts without linking them
.PHONY: archives
.SECONDARY:

# Each fuzz target twice: with replay.c over its seeds, for every `make test`, and with a fuzzer, for `make fuzz`.
fuzz_targets := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
replays := $(fuzz_targets:%=$(BUILD)/tests/replay/%)
fuzzers := $(fuzz_targets:%=$(BUILD)/tests/fuzzer/%)

# Both call the target through price.c, which finds inputs that cost more than their length.
PRICED := -Wl,--wrap=LLVMFuzzerTestOneInput
$(BUILD)/tests/replay/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/tests/fuzz/replay.o $(BUILD)/tests/fuzz/price.o $(archives)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(PRICED) -o $@ $^ $(archives) $(LIBS_kubedns)

$(BUILD)/tests/fuzzer/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/tests/fuzz/price.o $(archives)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(PRICED) -fsanitize=fuzzer -o $@ $^ $(archives) $(LIBS_kubedns)

built-tests: all $(unit_tests) $(replays) bench-tools
.PHONY: built-tests

unit: $(unit_tests) ## build and run the unit tests
	@BUILD=$(BUILD) sh tests/run.sh unit
.PHONY: unit

# The packages of Debian 12, by purpose; `make deps` installs what is missing of the first four.
PACKAGES_build := gcc libc6-dev make libcurl4-gnutls-dev libjson-c-dev libmicrohttpd-dev liburcu-dev libc-ares-dev libyaml-dev libmimalloc-dev libseccomp-dev libpcre2-dev libmnl-dev libfstrm-dev libprotobuf-c-dev protobuf-c-compiler nettle-dev
PACKAGES_run := dnsmasq-base bind9-dnsutils curl
PACKAGES_test := conntrack fstrm-bin gpg gpg-agent skopeo libcmocka-dev libldns-dev ldnsutils bind9 bind9utils nsd knot knot-dnsutils prometheus chromium iproute2 iptables nftables procps strace \
	python3 python3-pytest python3-pytest-xdist python3-dnspython python3-yaml python3-cryptography python3-h2 python3-openssl
PACKAGES_lint := clang clang-format clang-tidy libclang-rt-14-dev llvm mandoc pycodestyle python3-pyflakes shellcheck
PACKAGES_bench := knot nsd unbound dnsperf valgrind linux-perf musl-tools python3
# An engine that is there, whoever packaged it, is enough.
PACKAGES_image := mmdebstrap
PACKAGES_cluster := $(if $(shell command -v docker 2>/dev/null),,docker.io) mmdebstrap conntrack iptables
DEPS ?= build run test lint
deps = sh tests/deps.sh $(sort $(foreach purpose,$(1),$(PACKAGES_$(purpose))))

deps: ## install the Debian packages that are missing (DEPS="build run test lint bench cluster")
	@$(call deps,$(DEPS))
.PHONY: deps

# Twice make: what is built can be known only when the packages are there.
JOBS ?= $(shell nproc)
again = $(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)

test: ## install what is missing, build, run every test
	@$(call deps,build run test)
	@$(again) -s built-tests
	@BUILD=$(BUILD) PYTHON=$(PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)' sh tests/run.sh
.PHONY: test

check: ## the same without installing anything
	@$(again) -s built-tests
	@BUILD=$(BUILD) PYTHON=$(PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)' sh tests/run.sh
.PHONY: check

test-dirty: ## the tests on a machine full of other things: files in /tmp, taken ports, a proxy, other DNS servers (root)
	@$(call deps,build run test)
	@$(again) -s built-tests
	@BUILD=$(BUILD) PYTHON=$(PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)' bash tests/dirty.sh
.PHONY: test-dirty

system: ## build and run the system tests (PYTEST_ARGS="-k name")
	@$(again) -s all
	@BUILD=$(BUILD) PYTHON=$(PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)' sh tests/run.sh system
.PHONY: system

soak: ## the tests that take more than a minute each
	@$(call deps,build run test)
	@$(again) -s all
	@BUILD=$(BUILD) PYTHON=$(PYTHON) SYSTEM_TIMEOUT=14400 SOAK=1 PYTEST_ARGS='$(PYTEST_ARGS)' sh tests/run.sh system
	@$(MAKE) -s test-versions
.PHONY: soak

run: ## install what is missing, build, and run the three programs on example manifests until Ctrl-C
	@$(call deps,build run)
	@$(again) -s all
	@BUILD=$(BUILD) bash conf/example/run.sh
.PHONY: run

# The sanitizers: every test again with memory and undefined behaviour, then with data races looked at.
sanitized = $(MAKE) --no-print-directory -j$(JOBS) HARDENING=-fPIE OPTIMISE="-O1 -g -fno-omit-frame-pointer"
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=all
asan: ## the tests with AddressSanitizer and UndefinedBehaviorSanitizer
	@$(call deps,build run test)
	@$(sanitized) -s BUILD=build-asan SANITIZE="$(ASAN)" built-tests
	@ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
		BUILD=build-asan PYTHON=$(PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)' UNIT_TIMEOUT=900 SYSTEM_TIMEOUT=2400 sh tests/run.sh
.PHONY: asan

tsan: ## the tests with ThreadSanitizer
	@$(call deps,build run test)
	@$(sanitized) -s BUILD=build-tsan SANITIZE=-fsanitize=thread built-tests
	@TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
		BUILD=build-tsan PYTHON=$(PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)' UNIT_TIMEOUT=900 SYSTEM_TIMEOUT=2400 sh tests/run.sh
.PHONY: tsan

# Zeroed locals and an allocator of its own would hide uninitialised bytes.
memcheck: ## unit tests, fuzz seeds and a sample of the system tests under Valgrind's memcheck
	@$(call deps,build run test bench)
	@$(MAKE) --no-print-directory -j$(JOBS) -s BUILD=build-memcheck ALLOCATOR= HARDENING=-fPIE OPTIMISE="-O1 -g -fno-omit-frame-pointer" \
		CFLAGS="$(CFLAGS) -DMEMCHECK=1" built-tests
	@BUILD=build-memcheck PYTHON=$(PYTHON) JOBS=$(JOBS) sh tests/memcheck.sh
.PHONY: memcheck

FUZZ_SECONDS ?= 60
FUZZ ?= $(fuzz_targets)
fuzz: ## each fuzz target for FUZZ_SECONDS with libFuzzer (FUZZ=fuzz_addr for one)
	@$(call deps,build test lint)
	@$(sanitized) -s BUILD=build-fuzz CC=clang SANITIZE="$(ASAN) -fsanitize=fuzzer-no-link" fuzzers
	@for t in $(FUZZ); do echo "== $$t"; mkdir -p build-fuzz/corpus/$$t; \
		build-fuzz/tests/fuzzer/$$t -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 -rss_limit_mb=4096 \
		-print_final_stats=1 -verbosity=1 -close_fd_mask=2 -artifact_prefix=build-fuzz/$$t- build-fuzz/corpus/$$t tests/fuzz/seeds/$${t#fuzz_} \
		>build-fuzz/$$t.log 2>&1 || { cat build-fuzz/$$t.log; exit 1; }; grep -h stat::number_of build-fuzz/$$t.log; done
.PHONY: fuzz

fuzzers: $(fuzzers)
.PHONY: fuzzers

lint: ## form, static analysis, manual pages and scripts
	@$(call deps,build test lint)
	@$(again) -s BUILD=build build/$(DNSTAP).pb-c.h archives
	@PYTHON=$(PYTHON) sh tests/lint.sh
.PHONY: lint

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

# Benches: tests/bench/ has the programs and says what each figure is.
bench_tools := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
$(bench_tools): %: %.o $(BUILD)/lib.a
	$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^

bench-tools: $(bench_tools)
.PHONY: bench-tools

bench: ## speed beside knot, nsd, dnsmasq and a bare reflector
bench-report: ## the last results as Markdown and charts
bench-scale: ## the 5,000-node cluster: memory, first sync, relists, event to answer
bench-change: ## queries lost over 100 ConfigMap changes, beside kill-and-respawn
bench-instructions: ## instructions per query against the figures kept in the repository
bench-hostile: ## what one client loses while another attacks by every known way
bench-lookup: ## packets, CPU and time of one lookup by four resolver libraries, beside CoreDNS
bench-upstream: ## what clients notice when one upstream server is in trouble, or all are, beside CoreDNS
bench-node: ## what a node's clients lose when something happens to the node's own DNS
bench-node-conntrack: ## what 10,000 lookups a second leave in a node's conntrack, with its own DNS and without
bench-node-change: ## from an event of the API to the answer at the node's own DNS
bench bench-report bench-scale bench-change bench-instructions bench-hostile bench-lookup bench-upstream bench-node bench-node-conntrack bench-node-change:
	@$(call deps,build run test bench)
	@$(again) -s all bench-tools
	@BUILD=$(BUILD) $(PYTHON) tests/bench/bench.py $(@:bench-%=%) $(BENCH_ARGS)
.PHONY: bench bench-report bench-scale bench-change bench-instructions bench-hostile bench-lookup bench-upstream bench-node bench-node-conntrack bench-node-change

# The suite's own documents and what an operator copies and edits go where Debian puts examples: nothing here is read by a program.
docdir ?= $(datadir)/doc/kubedns
install: all ## install programs, man pages and examples below DESTDIR
	install -d "$(DESTDIR)$(sbindir)" "$(DESTDIR)$(mandir)/man8" "$(DESTDIR)$(docdir)/examples"
	install -m 755 $(foreach p,$(present),$(BUILD)/bin/$(call name,$(p))) "$(DESTDIR)$(sbindir)"
	for page in $(wildcard $(patsubst %,%/*.8,$(PROGRAMS) $(TOOLS))); do \
		gzip -9nc "$$page" >"$(DESTDIR)$(mandir)/man8/$$(basename "$$page").gz" || exit 1; done
	install -m 644 README.md CHANGELOG.md LICENSE docs/*.md "$(DESTDIR)$(docdir)"
	for d in kubernetes helm prometheus grafana example; do \
		[ ! -d conf/$$d ] || cp -RL --no-preserve=ownership conf/$$d "$(DESTDIR)$(docdir)/examples/" || exit 1; done
.PHONY: install

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

# The images carry the revision that they were built from; REGISTRY=registry.example/dns names them for a push.
REVISION = $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
REGISTRY ?=
IMAGE_PREFIX = $(if $(REGISTRY),$(REGISTRY)/)
include conf/image/pins
# When the revision was committed: what everything in the images is dated.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1700000000)
# The tag that the manifests of this tree name: the newest version.
MANIFEST_TAG = $(shell sed -n 's/^  kubednsImage: kubedns:\([^@]*\).*/\1/p' conf/kubernetes/settings/settings.yaml)
# The tag of the images that are built: it names the commit, so that two builds never share one. A tag has no "+".
IMAGE_TAG ?= $(subst +,-,$(VERSION))$(if $(shell git status --porcelain --untracked-files=no 2>/dev/null),-dirty)
IMAGES = $(foreach p,$(PROGRAMS),$(IMAGE_PREFIX)$(p):$(IMAGE_TAG))
# The packages of an image, "name version" a line.
image_packages = docker save $(IMAGES) | $(PYTHON) conf/image/packages.py

images: ## build the container images (needs docker; makes its base image from Debian's archive)
	@$(if $(filter kubedns-base:%,$(BASE)),$(call deps,image))
	sh conf/image/base.sh $(BASE)
	for p in $(PROGRAMS); do \
		docker build -q --force-rm -f conf/image/Dockerfile --build-arg BASE=$(BASE) --build-arg DEBIAN=$(DEBIAN) \
		--build-arg DEBIAN_SECURITY=$(DEBIAN_SECURITY) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
		$(IMAGE_ARGS) --target $$p -t $(IMAGE_PREFIX)$$p:$(IMAGE_TAG) . || exit 1; done
	docker save $(IMAGES) | $(PYTHON) conf/image/reproducible.py $(SOURCE_DATE_EPOCH) | docker load -q
	@docker image inspect -f '{{index .RepoTags 0}} {{.Id}}' $(IMAGES)
	@$(image_packages) | diff conf/image/packages - || \
		echo "images: other packages (>) than conf/image/packages says (<); after a look at what changed: make image-packages"
	@[ "$(IMAGE_TAG)" = "$(MANIFEST_TAG)" ] || printf '%s\n' \
		"images: the manifests name the version $(MANIFEST_TAG); for these images put into conf/kubernetes/settings/settings.yaml:" \
		$(foreach p,$(PROGRAMS),"  $(p)Image: $(p):$(IMAGE_TAG)")

image-packages:
	$(image_packages) >conf/image/packages
.PHONY: image-packages
.PHONY: images

# The Prometheus operator's object around the rules, which are written once; a test says when it is old.
RULES := conf/prometheus/rules.yaml
PROMETHEUSRULE := conf/kubernetes/components/prometheus/prometheusrule.yaml
prometheusrule: ## write the PrometheusRule of conf/kubernetes from conf/prometheus/rules.yaml
	@{ echo "# Made from $(RULES) by \`make prometheusrule\`; edit that."; \
	printf '%s\n' 'apiVersion: monitoring.coreos.com/v1' 'kind: PrometheusRule' 'metadata:' '  name: kube-dns' '  namespace: kube-system' \
		'  labels:' '    k8s-app: kube-dns' '    release: RELEASE' 'spec:'; \
	sed -e '/^#/d' -e 's/^./  &/' $(RULES); } >$(PROMETHEUSRULE)
.PHONY: prometheusrule

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

# Helm warns of each link that it follows. The images of this commit are the default: `make images` gives them the same tag.
chart: ## the Helm chart in $(BUILD)/chart/kubedns, with files in the place of links
	@rm -rf $(BUILD)/chart && mkdir -p $(BUILD)/chart
	@cp -RL conf/helm/kubedns $(BUILD)/chart/
	@sed -i 's/^appVersion: .*/appVersion: $(IMAGE_TAG)/' $(BUILD)/chart/kubedns/Chart.yaml
	@echo $(BUILD)/chart/kubedns
.PHONY: chart

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

version: ## what git says that this is
	@echo $(VERSION)

image-tag: ## the tag under which the manifests name the images
	@echo $(MANIFEST_TAG)
.PHONY: version image-tag

clean: ## remove what was built
	rm -rf build build-*
.PHONY: clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 28
.PHONY: help

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
