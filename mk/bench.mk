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
