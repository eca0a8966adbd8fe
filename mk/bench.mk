# Benches. The programs are in tests/bench/, whose README explains the figures.
bench_tools := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
$(bench_tools): %: %.o $(BUILD)/lib.a
	$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^

bench-tools: $(bench_tools)
.PHONY: bench-tools

bench: ## speed, compared with knot, nsd, dnsmasq and a plain reflector (BENCH_ARGS=--quick: two minutes)
bench-report: ## the last results as Markdown and charts
bench-scale: ## the 5,000-node cluster: memory, first sync, relists, event to answer
bench-change: ## queries lost during 100 ConfigMap changes, compared with restarts
bench-hostile: ## queries that a client loses during each known kind of attack by another
bench-lookup: ## packets, CPU and time of a lookup by four resolver libraries, compared with CoreDNS
bench-upstream: ## effects on clients when one or all upstream servers fail, compared with CoreDNS
bench-node: ## queries that a node's clients lose when the node's DNS is updated or killed
bench-node-conntrack: ## conntrack entries of 10,000 lookups per second, with and without a DNS on the node
bench-node-change: ## time from an API event to the answer of the node's DNS
bench bench-report bench-scale bench-change bench-hostile bench-lookup bench-upstream bench-node bench-node-conntrack bench-node-change:
	@$(call deps,build run test bench)
	@$(again) -s all bench-tools
	@BUILD=$(BUILD) $(PYTHON) tests/bench/bench.py $(@:bench-%=%) $(BENCH_ARGS)
.PHONY: bench bench-report bench-scale bench-change bench-hostile bench-lookup bench-upstream bench-node bench-node-conntrack bench-node-change

charts: ## draw README.md's charts from tests/bench/published.json
	@$(PYTHON) tests/bench/published.py
.PHONY: charts
