# ---- which tests: `make test` omits those that tests/tiers marks slow; `make test-rest` runs those marked slow or again,
# with TURN=0 or 1 every second one of them. T names any tests.
TEST_SRC := $(wildcard tests/unit/test_*.c tests/suite/test_*.c)
ANY_TEST := $(TEST_SRC:%.c=$(B)/%)
tier = $(shell awk '$$2 ~ /$1/ && ("$(if $(REST),$(TURN))" == "" || n++ % 2 == "$(TURN)") {print $$1}' tests/tiers)
called = $(addprefix %/,$1 $(1:=.sh))
CHOSEN := $(ANY_TEST) $(wildcard tests/e2e/*.sh)
ifneq ($(T)$(REST),)
CHOSEN := $(filter $(call called,$(or $(T),$(call tier,slow|again))),$(CHOSEN))
else ifneq ($(QUICK),)
CHOSEN := $(filter-out $(call called,$(call tier,slow)),$(CHOSEN))
endif
TEST_BIN := $(filter $(ANY_TEST),$(CHOSEN))
TEST_SH := $(filter %.sh,$(CHOSEN))
# $(call needs,SCRIPTS,FILES): what these scripts run, besides the daemons and the tools
needs = $(if $(filter $(addprefix tests/e2e/,$(1:=.sh)),$(TEST_SH)),$2)
# the scripts in which a regular expression is found
mention = $(patsubst tests/e2e/%.sh,%,$(shell grep -slE '$1' tests/e2e/*.sh))

# ---- the programs of the tests
SUPPORT_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/support/*.c tests/ref/*.c))
E2E_TOOLS := $(patsubst %.c,$(B)/%,$(wildcard tests/e2e/tools/*.c))
TEST_LIBS := -lcmocka
# gold, of Debian's binutils, links the many test programs in a third of the time.
TEST_LDFLAGS := $(if $(SAN),,$(if $(shell command -v $(if $(CROSS),$(CROSS)-)ld.gold),-fuse-ld=gold))
# -O1: compiling the unit tests takes longer than running them.
$(B)/tests/unit/%.o: OWN += -O1
# gcc 12 for arm64 has an internal compiler error when it vectorizes a loop over fmax(most, fabs(x)), as tests have.
ifeq ($(MACHINE),aarch64)
$(B)/tests/%.o: OWN += -fno-tree-vectorize
endif

build-tests: $(TEST_BIN) $(if $(TEST_SH),$(E2E_TOOLS))
$(ANY_TEST): $(B)/%: $(B)/%.o $(SUPPORT_OBJ) $(LIB)
	$(call link,$(TEST_LDFLAGS),$(TEST_LIBS))
$(E2E_TOOLS): $(B)/%: $(B)/%.o $(LIB)
	$(call link,$(TEST_LDFLAGS))
$(B)/tests/e2e/tools/make_text: $(B)/tests/support/made_text.o
# These tests answer for the worker when a long loop asks it whether to give way.
$(addprefix $(B)/tests/suite/test_,op_price gives_way): TEST_LDFLAGS += $(call wrap,sl_worker_here sl_worker_turn sl_worker_turn_due)
build-tests: $(call needs,onnx_families,$(B)/tests/suite/test_golden)
# Preloaded before libc in the daemons' processes, so never together with a sanitizer.
build-tests: $(if $(SAN),,$(call needs,link_faults,$(B)/tests/support/preload/clock_back.so))
build-tests: $(if $(SAN),,$(call needs,messages,$(B)/tests/support/preload/old_blas.so))
$(B)/tests/support/preload/%.so: tests/support/preload/%.c $(FLAGS) mk/tests.mk
	$(call says,LINK ,$@)
	$(Q)$(CC) -std=gnu11 $(WARN) -O2 -g -D_GNU_SOURCE= -I. -fPIC -shared -pthread -o $@ $<

# ---- both daemons with failpoints (common/base/failpoint.h). Only the sources that contain failpoints are compiled again;
# they are linked before the library.
FAIL_OBJ := $(patsubst %.c,$(B)/fail/%.o,$(filter-out %/main.c,$(shell grep -l SL_FAILPOINT common/*/*.c client/*.c client/*/*.c server/*.c server/*/*.c)))
FAIL_BINS := $(B)/fail/splitc $(B)/fail/splits
##@ Test
fail: $(FAIL_BINS) ## build/<variant>/fail: both daemons with failpoints, for tests
build-tests: $(call needs,$(call mention,lib/failpoints|lib/groups|lib/vertical|/fail/|start_(slow|failing)_client|client_(stands|dies)|killed_(client|server)),$(FAIL_BINS))

$(B)/fail/%.o: OWN += -DSL_FAILPOINTS
$(B)/fail/client/main.o $(B)/fail/server/main.o: OWN += -DSL_BUILD_VERSION='"$(GIT_VERSION), with failpoints"'
$(B)/fail/%.o: %.c $(FLAGS) mk/tests.mk | $(GEN_HDR)
	$(call compile,CC   ,$(CC) $(BASE_CFLAGS) $(call simd,$<) $(CFLAGS),failpoints)
$(B)/fail/splitc: $(B)/fail/client/main.o
$(B)/fail/splits: $(B)/fail/server/main.o
$(FAIL_BINS): $(FAIL_OBJ) $(LIB)
	$(call link,$(TEST_LDFLAGS))

# ---- the simulator of the pair: tests/sim/sim.h. Its objects come first, so that the library's of the same name stay away.
PAIR_SIM := $(B)/tests/sim/sim
PAIR_SIM_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/sim/*.c)) $(B)/tests/support/disk_model.o
# _longjmp changes stacks, which the fortified one takes for an error.
$(PAIR_SIM_OBJ): OWN += -U_FORTIFY_SOURCE
PAIR_SIM_WRAP = $(call wrap,$(sort $(shell sed -n 's/.*__wrap_\([a-z_]*\).*/\1/p' tests/sim/*.c)))
PAIR_SIM_FAIL := $(filter-out %/failpoint.o %/transport_zmq.o %/worker.o,$(FAIL_OBJ))
build-tests: $(if $(SAN),,$(call needs,simulated,$(PAIR_SIM)))
$(PAIR_SIM): $(PAIR_SIM_OBJ) $(PAIR_SIM_FAIL) $(LIB)
	$(call link,$(TEST_LDFLAGS) $(PAIR_SIM_WRAP))

sim: all $(PAIR_SIM) ## the pair simulated under SEEDS=300 seeds: faults, kills, power cuts (JOBS=1 ROW=clip KINDS=FULL,TERM FAULTS=6; SEED=7 [KEEP=1,4] [TRACE=1]); DAYS=10: long outages of a group's sites
	@SPLITC=$(B)/splitc $(PAIR_SIM) $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST))) \
		$(if $(ROW),--row $(ROW)) $(if $(JOBS),--jobs $(JOBS)) $(if $(filter undefined,$(origin KEEP)),,--keep '$(KEEP)') $(if $(TRACE),--trace) \
		$(if $(KINDS),--kinds $(KINDS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(DAYS),--days $(DAYS))
mixed: all fail $(E2E_TOOLS) ## configs whose keys are drawn: link = local, resume, eval, predict (SEED=1000 COUNT=3000; JOBS=2 KEEP=1 REFUSALS=1)
	@$(if $(JOBS),JOBS=$(JOBS)) $(if $(KEEP),KEEP=1) $(if $(REFUSALS),REFUSALS=1) python3 tests/mixed/mixed.py $(B) $(or $(SEED),1000) $(or $(COUNT),3000)
PLANTED_UNITS = $(shell sed -n 's/^[^#|]*|[^|]*| *\(test_[a-z_]*\) *|.*/\1/p' tests/sim/planted | sort -u)
sim-selftest: all $(PAIR_SIM) $(SUPPORT_OBJ) $(patsubst %,$(B)/tests/unit/%.o,$(PLANTED_UNITS)) ## plants each fault of tests/sim/planted, which the simulator or a unit test must find (PLANT=NAME: only those)
	@BUILD=$(B) SPLITC=$(B)/splitc COMPILE='$(CC) $(BASE_CFLAGS) -O1 -DSL_FAILPOINTS -w' \
		LINK='$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -Wl,-z,muldefs $(PAIR_SIM_WRAP) -o $(B)/sim-planted/sim' \
		UNIT_LINK='$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -Wl,-z,muldefs -o $(B)/sim-planted/unit' SUPPORT='$(SUPPORT_OBJ)' \
		OBJECTS='$(PAIR_SIM_OBJ) $(PAIR_SIM_FAIL)' LIBS='$(LIB) $(LDLIBS)' tests/sim/selftest.sh '$(PLANT)'
mutations: all fail $(PAIR_SIM) $(E2E_TOOLS) ## changes one condition of the code at a time, and prints what no test notices (ARGS="--count 40 --no-scripts")
	@$(MAKE) --no-print-directory build-tests T="$$(scripts/mutations.py --tests $(ARGS))"
	@BUILD=$(B) COMPILE='$(CC) $(BASE_CFLAGS) -O1 -w' LINK='$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS)' LIBS='$(LIB) $(LDLIBS)' \
		SUPPORT='$(SUPPORT_OBJ)' FAIL_OBJECTS='$(FAIL_OBJ)' SIM_OBJECTS='$(PAIR_SIM_OBJ) $(PAIR_SIM_FAIL)' \
		SIM_LINK='$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) $(PAIR_SIM_WRAP)' scripts/mutations.py $(ARGS)
blackbox: all ## trains with real processes over TCP under faults (SECONDS=300 FIRST=1; SEED=7)
	@tests/blackbox/blackbox.py $(B) --keep $(if $(SEED),--seed $(SEED),--first $(or $(FIRST),1) --seconds $(or $(SECONDS),300))
blackbox-selftest: ## plants each fault of tests/blackbox/planted, which the black box must find (PLANT=NAME: only those)
	@CC='$(CC)' tests/blackbox/selftest.sh '$(PLANT)'

# ---- runs of tests. `test` first installs its packages; a second make then finds the pkg-config that the first lacked.
PARALLEL := $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
check: all build-tests
	@BUILD=$(B) SAN='$(SAN)' SPLIT_QUICK='$(QUICK)' scripts/run-tests.sh $(CHOSEN)
test: deps ## the tests of every day, with the build in 5 minutes on two cores
	@TEST_BEGAN=$$(date +%s) $(MAKE) --no-print-directory $(PARALLEL) QUICK=1 check
test-all: deps ## all tests: also the simulated device and the long scripts
	@TEST_BEGAN=$$(date +%s) $(MAKE) --no-print-directory $(PARALLEL) check
test-rest: deps ## what `make test` leaves out of `make test-all`
	@TEST_BEGAN=$$(date +%s) $(MAKE) --no-print-directory $(PARALLEL) REST=1 check
test-long: deps ## everything at length: 1,000 kills, an hour of soak, fuzzing, sanitizers (STAGES="long fuzz asan tsan lib")
	@scripts/test-long.sh $(STAGES)
test-fresh: ## README's two commands on a clean Debian, by root and by a user with sudo (root; SUITE=trixie, SPLIT_FRESH=newcomer)
	@SUITE='$(SUITE)' scripts/test-fresh.sh
test-tutorial: all ## every command of docs/tutorial.md, on two network namespaces (root, package iproute2)
	@BUILD=$(CURDIR)/$(B) scripts/test-tutorial.sh
test-arm64: ## arm64, emulated by qemu: packages, tests, and pairs of both architectures (root)
	@scripts/test-arm64.sh
