# ---- benchmarks: every tests/bench/bench_*.c is a program of its own, linked with op_times.c
BENCH_BIN := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))
build-bench: $(BENCH_BIN)
$(BENCH_BIN): $(B)/%: $(B)/%.o $(B)/tests/bench/op_times.o $(LIB)
	$(link)

##@ Measure
bench: deps ## milliseconds of head, middle, tail, codecs and link (BENCH_ARGS=--json)
	@$(MAKE) --no-print-directory all build-bench
	@BUILD=$(B) tests/bench/bench.sh $(BENCH_ARGS)
bench-codecs: deps ## every table of docs/results/codecs.md (BENCH_ARGS="--write --cut DIR")
	@$(MAKE) --no-print-directory all build-bench
	@BUILD=$(B) tests/bench/codecs_results.py $(BENCH_ARGS)
bench-link: deps ## the pair over a shaped link, in two network namespaces (root; BENCH_ARGS=--write)
	@$(MAKE) --no-print-directory all build-bench
	@BUILD=$(B) tests/bench/shaped-link.sh $(BENCH_ARGS)
bench-rounding: deps ## how far float32 is from float64, ours and PyTorch's (BENCH_ARGS="--quick --write --keep DIR")
	@scripts/install-deps.sh --peer
	@$(MAKE) --no-print-directory all build-bench
	@BUILD=$(B) tests/bench/bench_rounding.py $(BENCH_ARGS)
bench-loader: deps ## decoded and cropped pictures a second beside torchvision and Pillow (BENCH_ARGS="--pictures 512 --threads 2")
	@scripts/install-deps.sh --peer
	@$(MAKE) --no-print-directory $(B)/tests/bench/bench_loader
	@/usr/bin/python3 tests/bench/bench_loader.py $(B)/tests/bench/bench_loader $(BENCH_ARGS)
# SUITE: in a Debian of that release (scripts/in-suite.sh), with its PyTorch.
ifneq ($(SUITE),)
test-torch bench-peer:
	@scripts/in-suite.sh '$(SUITE)' "make $@ BENCH_ARGS='$(BENCH_ARGS)' SPLIT_NO_DEPS='$(SPLIT_NO_DEPS)'"
else
##@ Test
test-torch: deps ## compare with PyTorch, live (python3-torch; SUITE=trixie: in Debian 13, as root)
	@scripts/install-deps.sh --peer
	@$(MAKE) --no-print-directory all
	BUILD=$(B) tests/golden/test-torch.sh
##@ Measure
bench-peer: deps ## the same work in PyTorch beside it, as ratios (SUITE=trixie: PyTorch 2.6 in Debian 13, as root; BENCH_ARGS=--write)
	@scripts/install-deps.sh --peer
	@$(MAKE) --no-print-directory all lib build-bench
	@BUILD=$(B) tests/bench/bench-peer.sh $(BENCH_ARGS)
endif

# ---- demos
##@ Build and try
demo: ## two daemons train MobileNetV2 on CIFAR-10
demo-text: ## two daemons train a small encoder on CoLA from random weights (TEXT_DATA=FOLDER with glue/ and roberta_tokenizer/)
demo-generate: ## two daemons train a small decoder on CoLA's sentences, and write text (TEXT_DATA=FOLDER as above)
demo demo-text demo-generate: deps
	@$(MAKE) --no-print-directory $(PARALLEL) all
	BUILD=$(B) scripts/$@.sh $(TEXT_DATA)
