# Build, run, test and lint; mk/ has benches, packages, images and cluster tests. `make help` lists the targets.

# The version comes from git or from the source archive. A build that has neither, such as the build of a package, gives the version on the command line.
ifneq ($(origin VERSION),command line)
VERSION := $(shell sh conf/version.sh)
endif
BUILD ?= build
CC ?= cc
# Debian's Python comes first, because it finds the modules from Debian's packages.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
prefix ?= /usr
sbindir ?= $(prefix)/sbin
mandir ?= $(prefix)/share/man
sysconfdir ?= /etc
datadir ?= $(prefix)/share

PROGRAMS := kubedns nanny sidecar
# The modules of kubedns (kubedns/module.h). `make MODULES="a b" BUILD=...` builds other ones, and MODULES= builds the core alone.
MODULES ?= $(file <kubedns/modules/list)
modules := $(strip $(MODULES))
module_folders := $(modules:%=kubedns/modules/%)
# Tools have no container image. TOOLS lists their directories. name_DIRECTORY is the name of the program if it differs from the
# directory's.
TOOLS := migrate
name_migrate := kubedns-migrate
name = $(or $(name_$(1)),$(1))

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
	-Wwrite-strings -Wcast-qual -Wvla $(WERROR)
# The processor's protection of return addresses depends on the architecture. _FORTIFY_SOURCE needs optimisation.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
# If the compiler supports it, local variables are set to zero before their first use. A forgotten initialisation then exposes no old data.
# The object files on the path of a query (QUERY_PATH) are excluded, because they use only a small part of large arrays. With zeroing,
# answers with SRV sets took ten times as long. With zeroing of all but the largest array, they still took a tenth longer.
ZEROED := -ftrivial-auto-var-init=zero
ZEROED := $(if $(shell $(CC) $(ZEROED) -E -x c /dev/null >/dev/null 2>&1 && echo yes),$(ZEROED))
HARDENING ?= $(ZEROED) -fPIE -fstack-protector-strong -fstack-clash-protection \
	$(if $(filter x86_64-%,$(MACHINE)),-fcf-protection)$(if $(filter aarch64-%,$(MACHINE)),-mbranch-protection=standard) \
	$(if $(filter -O0,$(OPTIMISE) $(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
OPTIMISE ?= -O2 -g -ffunction-sections -fdata-sections
# GCC compiles a copy of unknown length to "rep movs", which takes longer to start than the whole library function.
STRINGS := -mmemcpy-strategy=libcall:-1:noalign -mmemset-strategy=libcall:-1:noalign
STRINGS := $(if $(shell $(CC) $(STRINGS) -E -x c /dev/null >/dev/null 2>&1 && echo yes),$(STRINGS))
CFLAGS_ALL = -std=c17 -D_GNU_SOURCE -D_LGPL_SOURCE -I. -MMD -MP \
	$(OPTIMISE) $(STRINGS) $(WARNINGS) $(HARDENING) $(SANITIZE) $(CFLAGS)
LDFLAGS_ALL = -pie -Wl,-z,relro,-z,now,--as-needed,--gc-sections $(SANITIZE) $(LDFLAGS)

# The memory allocator of kubedns. kubedns keeps the cluster in many small blocks. Each change frees and allocates about a hundred even
# smaller blocks. Sanitizers have their own allocator. `make BUILD=build-libc ALLOCATOR=` builds with libc's allocator. It needs a separate
# directory, because existing object files are not rebuilt.
ALLOCATOR ?= $(if $(SANITIZE),,-lmimalloc)
LIBS_kubedns = $(foreach m,$(modules),$($(m)_LIBS)) -lpcre2-8 -lcurl-gnutls -ljson-c -lmicrohttpd -lurcu-memb -lurcu-common -lyaml -lseccomp -lpthread -lm
LIBS_nanny := -ljson-c -lmicrohttpd -lcares -lseccomp -lmnl
LIBS_sidecar := -lgnutls -ljson-c -lmicrohttpd -lseccomp -lm
LIBS_migrate := -ljson-c -lyaml
LIBS_treecache := -lurcu-memb -lurcu-common
LIBS_lib := -ljson-c -lmicrohttpd -lyaml -lseccomp

# Each program is a directory with main.c and its other sources, in subdirectories if there are many. The objects of each program also form
# an archive. Tests are linked with these archives.
present := $(foreach p,$(PROGRAMS) $(TOOLS),$(if $(wildcard $(p)/main.c),$(p)))
dirs := lib treecache $(PROGRAMS) $(TOOLS)
objs = $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/main.c kubedns/modules/%,$(foreach depth,* */* */*/*,$(wildcard $(1)/$(depth).c))))
module_objs := $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(module_folders:%=%/*.c)))
archives := $(foreach d,kubedns nanny sidecar migrate treecache lib,$(if $(call objs,$(d)),$(BUILD)/$(d).a))
kubedns_archives := $(filter-out %/nanny.a %/sidecar.a %/migrate.a,$(archives))
treecache_archives := $(BUILD)/treecache.a $(BUILD)/lib.a
nanny_archives := $(BUILD)/nanny.a $(BUILD)/lib.a
sidecar_archives := $(BUILD)/sidecar.a $(BUILD)/lib.a
migrate_archives := $(BUILD)/migrate.a $(BUILD)/lib.a
lib_archives := $(BUILD)/lib.a
unit_sources := $(wildcard tests/unit/test_*.c $(modules:%=tests/modules/%/unit/test_*.c))
unit_tests := $(patsubst %.c,$(BUILD)/tests/unit/%,$(notdir $(unit_sources)))

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

# The files of the status page are compiled into the sidecar (sidecar/page/assets.c).
$(BUILD)/sidecar/page/assets.o: $(addprefix sidecar/page/,page.html page.css page.js icon.svg)

# version.o is compiled again when the version changes. It is linked before the archives, which contain another version.o for the tests.
$(BUILD)/version: always
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
.PHONY: always
$(BUILD)/version.o: lib/version.c $(BUILD)/version Makefile
	$(CC) $(CFLAGS_ALL) -DVERSION='"$(VERSION)"' -c -o $@ $<

# The lists of modules are compiled again when the modules change. module.mk of each module may set NAME_LIBS, NAME_GENERATED (object files
# from generated sources), NAME_QUERY_PATH (object files on the path of a query), NAME_PACKAGES and NAME_PACKAGES_TEST (Debian packages for
# building and for its tests).
$(BUILD)/kubedns/module_table.c: always
	@mkdir -p $(@D)
	@sh kubedns/modules/table.sh $(modules) >$@.new && { cmp -s $@.new $@ && rm $@.new || mv $@.new $@; }
$(BUILD)/kubedns/module_table.o: $(BUILD)/kubedns/module_table.c Makefile
	$(CC) $(CFLAGS_ALL) -c -o $@ $<
$(BUILD)/migrate/module_flags.c: always
	@mkdir -p $(@D)
	@sh kubedns/modules/table.sh --migrate $(modules) >$@.new && { cmp -s $@.new $@ && rm $@.new || mv $@.new $@; }
$(BUILD)/migrate/module_flags.o: $(BUILD)/migrate/module_flags.c Makefile
	$(CC) $(CFLAGS_ALL) -c -o $@ $<
generated_migrate := $(BUILD)/migrate/module_flags.o
-include $(module_folders:%=%/module.mk)
generated_kubedns := $(BUILD)/kubedns/module_table.o $(module_objs) \
	$(foreach m,$(modules),$(addprefix $(BUILD)/kubedns/modules/$(m)/,$($(m)_GENERATED)))
$(foreach m,$(modules),$(addprefix $(BUILD)/kubedns/modules/$(m)/,$($(m)_QUERY_PATH))): ZEROED =

define archive
$(BUILD)/$(1).a: $(call objs,$(1)) $(generated_$(1))
	@rm -f $$@
	$(AR) qcs $$@ $$^
endef
$(foreach d,$(dirs),$(eval $(call archive,$(d))))

define program
$(BUILD)/bin/$(call name,$(1)): $(BUILD)/$(1)/main.o $(BUILD)/version.o $(foreach d,$(1) treecache lib,$(if $(call objs,$(d)),$(BUILD)/$(d).a))
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $$@ $$^ $(2) $(LIBS_$(1))
endef
$(foreach p,$(present),$(eval $(call program,$(p),$(if $(filter kubedns,$(p)),$(ALLOCATOR)))))

# A unit test belongs to the program whose headers it includes. Without such headers it belongs to lib. It is linked only with the archive
# of that program and the archives that the program uses. Code that several tests share is in files of tests/unit that are not called
# test_*.
unit_includes := $(shell awk -F'["/]' '/^.include "/ { print FILENAME ":" $$2 }' $(unit_sources) | sort -u)
unit_owner = $(firstword $(foreach d,kubedns nanny sidecar migrate treecache,$(if $(filter $(1):$(d),$(unit_includes)),$(d))) lib)
unit_shared := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c)))

$(BUILD)/tests/unit/shared.a: $(unit_shared)
	@rm -f $@
	$(AR) rcs $@ $^

define unit_test
$(BUILD)/tests/unit/$(basename $(notdir $(1))): $(BUILD)/$(1:.c=.o) $(BUILD)/tests/unit/shared.a $($(2)_archives)
	$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$^ -lcmocka -lldns $(LIBS_$(2))
endef
$(foreach t,$(unit_sources),$(eval $(call unit_test,$(t),$(call unit_owner,$(t)))))

archives: $(archives) ## compile all sources without linking programs
.PHONY: archives
.SECONDARY:

# Each fuzz target is built twice. One program contains replay.c, which runs the seeds in every `make test`. The other contains a fuzzer for `make fuzz`.
# The seeds are in the folder `seeds` beside the target. Modules have targets too.
fuzz_sources := $(wildcard tests/fuzz/fuzz_*.c $(modules:%=tests/modules/%/fuzz/fuzz_*.c))
fuzz_targets := $(basename $(notdir $(fuzz_sources)))
replays := $(fuzz_targets:%=$(BUILD)/tests/replay/%)
fuzzers := $(fuzz_targets:%=$(BUILD)/tests/fuzzer/%)

# Both programs call the target through price.c. It finds inputs that cost more than their length allows.
PRICED := -Wl,--wrap=LLVMFuzzerTestOneInput
define fuzz_target
$(BUILD)/tests/replay/$(basename $(notdir $(1))): $(BUILD)/$(1:.c=.o) $(BUILD)/tests/fuzz/replay.o $(BUILD)/tests/fuzz/price.o $(archives)
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) $$(PRICED) -o $$@ $$^ $$(archives) $$(LIBS_kubedns) -lcares -lgnutls

$(BUILD)/tests/fuzzer/$(basename $(notdir $(1))): $(BUILD)/$(1:.c=.o) $(BUILD)/tests/fuzz/price.o $(archives)
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) $$(PRICED) -fsanitize=fuzzer -o $$@ $$^ $$(archives) $$(LIBS_kubedns) -lcares -lgnutls
endef
$(foreach t,$(fuzz_sources),$(eval $(call fuzz_target,$(t))))

# What depends on the modules: kubedns, its own unit tests, and kubedns-migrate. For tests/modules.sh.
kubedns-tests: $(BUILD)/bin/kubedns $(BUILD)/bin/kubedns-migrate $(foreach t,$(unit_sources),$(if $(filter kubedns,$(call unit_owner,$(t))),$(BUILD)/tests/unit/$(basename $(notdir $(t)))))
.PHONY: kubedns-tests

built-tests: all $(unit_tests) $(replays) bench-tools
.PHONY: built-tests

unit-tests: $(unit_tests) $(replays)
.PHONY: unit-tests

unit: $(unit_tests) ## build and run the unit tests
	@BUILD=$(BUILD) sh tests/run.sh unit
.PHONY: unit

# Debian packages by purpose, with names that every release has. By default `make deps` installs the missing packages for building, running,
# testing and lint.
PACKAGES_build := gcc libc6-dev make libcurl4-gnutls-dev libjson-c-dev libmicrohttpd-dev libgnutls28-dev liburcu-dev libc-ares-dev libyaml-dev libmimalloc-dev libseccomp-dev libpcre2-dev libmnl-dev \
	$(foreach m,$(modules),$($(m)_PACKAGES))
PACKAGES_run := dnsmasq-base bind9-dnsutils curl
PACKAGES_unit := libcmocka-dev libldns-dev netbase nftables
PACKAGES_test := $(foreach m,$(modules),$($(m)_PACKAGES_TEST)) conntrack gpg gpg-agent skopeo $(PACKAGES_unit) ldnsutils bind9 bind9-utils nsd knot knot-dnsutils prometheus chromium iproute2 iptables procps strace \
	python3 python3-pytest python3-pytest-xdist python3-dnspython python3-yaml python3-cryptography python3-h2 python3-openssl
PACKAGES_lint := clang clang-format clang-tidy libclang-rt-dev llvm mandoc pycodestyle python3-pyflakes shellcheck
PACKAGES_bench := knot nsd unbound dnsperf valgrind linux-perf musl-tools python3
# Any container engine that exists on the machine is enough.
PACKAGES_image := mmdebstrap
PACKAGES_cluster := $(if $(shell command -v docker 2>/dev/null),,docker.io) mmdebstrap conntrack iptables
PACKAGES_nodes := runc containernetworking-plugins conntrack iptables nftables iproute2
DEPS ?= build run test lint
deps = sh tests/deps.sh $(sort $(foreach purpose,$(1),$(PACKAGES_$(purpose))))

deps: ## install the Debian packages that are missing (DEPS="build run test lint bench cluster")
	@$(call deps,$(DEPS))
.PHONY: deps

packages: ## print the names of those packages (DEPS="build run")
	@echo $(sort $(foreach purpose,$(DEPS),$(PACKAGES_$(purpose))))
.PHONY: packages

# make runs again after the installation of packages, because only then does it know what to build.
JOBS ?= $(shell nproc)
again = $(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)

# The tests of the nanny run with the other engine in a root file system of Debian 13, because Debian 12's unbound is too old.
test: ## install missing packages, build, and run all tests (ENGINE=unbound: the nanny's tests with that engine; root)
ifeq ($(ENGINE),unbound)
	@tests/release.sh unbound
else
	@$(call deps,build run test)
	@$(again) -s built-tests
	@BUILD=$(BUILD) PYTHON=$(PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)' sh tests/run.sh
endif
.PHONY: test

check: ## like test, without installing packages
	@$(again) -s built-tests
	@BUILD=$(BUILD) PYTHON=$(PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)' sh tests/run.sh
.PHONY: check

# STEADY_ARGS adds to the command, such as --rounds loaded=2,single=2 --only tests/system/node.
steady steady-all: ## repeat the tests that depend on time (steady-all: all tests) on a busy machine and count failures; continues after an interruption
	@$(again) -s built-tests
	@BUILD=$(BUILD) $(PYTHON) tests/steady.py $(if $(filter steady,$@),listed,all) $(STEADY_ARGS)
.PHONY: steady steady-all

test-dirty: ## the tests on a machine with files in /tmp, used ports, a proxy and other DNS servers (root)
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

run: ## install missing packages, build, and run the three programs on example manifests until Ctrl-C
	@$(call deps,build run)
	@$(again) -s all
	@BUILD=$(BUILD) exec bash conf/example/run.sh
.PHONY: run

# Runs all tests with AddressSanitizer and UndefinedBehaviorSanitizer, and then with ThreadSanitizer.
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

test-release: ## build and test on the other one of Debian 12 and 13, and for arm64 (root, mmdebstrap; RELEASE=other, arm64, deb, unbound or http)
	@tests/release.sh $(RELEASE)
.PHONY: test-release

ci-all: ## list the steps that .ci/run does not have, or run some of them (STEPS="arm64 tsan"; each at most 60 minutes)
	@.ci/run $(or $(STEPS),list)
.PHONY: ci-all

# The build has no zeroed local variables and no mimalloc, because these hide uninitialised bytes.
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
		set -- tests/fuzz/seeds/$${t#fuzz_} tests/modules/*/fuzz/seeds/$${t#fuzz_}; [ -d "$$1" ] || shift; \
		build-fuzz/tests/fuzzer/$$t -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 -rss_limit_mb=4096 \
		-print_final_stats=1 -verbosity=1 -close_fd_mask=2 -artifact_prefix=build-fuzz/$$t- build-fuzz/corpus/$$t $$1 \
		>build-fuzz/$$t.log 2>&1 || { cat build-fuzz/$$t.log; exit 1; }; grep -h stat::number_of build-fuzz/$$t.log; done
.PHONY: fuzz

fuzzers: $(fuzzers)
.PHONY: fuzzers

lint: ## check formatting, code, manual pages, scripts and documents
	@$(call deps,build run test lint)
	@$(again) -s BUILD=build archives all
	@! command -v go >/dev/null || $(again) -s BUILD=build actionlint
	@PYTHON=$(PYTHON) sh tests/lint.sh
.PHONY: lint

report: ## print figures about the form of sources, texts and pictures; never fails (REPORT="lengths words")
	@$(call deps,build test lint)
	@$(again) -s BUILD=build archives all bench-tools
	-@$(PYTHON) tests/report.py build $(REPORT)
.PHONY: report

page-picture: ## take the picture of the status page in README.md from the programs during a flood (four minutes)
	@$(call deps,build run test)
	@$(again) -s all bench-tools
	@BUILD=$(BUILD) $(PYTHON) tests/page_picture.py
.PHONY: page-picture

# Documents and example files go to Debian's directory for examples. No program reads them.
docdir ?= $(datadir)/doc/kubedns
install: all ## install programs, man pages and examples below DESTDIR
	install -d "$(DESTDIR)$(sbindir)" $(foreach n,5 7 8,"$(DESTDIR)$(mandir)/man$(n)") "$(DESTDIR)$(docdir)/examples"
	install -m 755 $(foreach p,$(present),$(BUILD)/bin/$(call name,$(p))) "$(DESTDIR)$(sbindir)"
	for page in $(wildcard $(foreach p,$(PROGRAMS) $(TOOLS),$(p)/*.8 $(p)/man/*.[57]) $(module_folders:%=%/*.7)); do \
		sh kubedns/modules/table.sh --manual $(modules) | \
			sed -e '/^\.\\" make install adds/r /dev/stdin' -e '/^\.\\" make install adds/d' "$$page" | \
			gzip -9nc >"$(DESTDIR)$(mandir)/man$${page##*.}/$$(basename "$$page").gz" || exit 1; done
	install -m 644 README.md CHANGELOG.md LICENSE docs/*.md "$(DESTDIR)$(docdir)"
	for d in kubernetes helm prometheus grafana example; do \
		[ ! -d conf/$$d ] || cp -RL --no-preserve=ownership conf/$$d "$(DESTDIR)$(docdir)/examples/" || exit 1; done
.PHONY: install

version: ## print the version that git describes
	@echo $(VERSION)
.PHONY: version

clean: ## remove all build results
	rm -rf build build-*
.PHONY: clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile mk/*.mk | expand -t 28
.PHONY: help

# Benches, packages, images and cluster tests. conf/image/Dockerfile does not copy mk/, because building an image does not need it.
include $(wildcard mk/*.mk)

-include $(shell find $(BUILD) -path $(BUILD)/nodes -prune -o -name '*.d' -print 2>/dev/null)
