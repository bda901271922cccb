# Split. `make help` lists the targets. Everything that is built lies under build/<variant>/.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile
	@echo 'Variables: T=test_x (one test), SAN=address,undefined | thread, CROSS=aarch64-linux-gnu, PREFIX, DESTDIR, SPLIT_NO_DEPS=1, FUZZ_SECONDS=60, WERROR=1, V=1'

# ---- variant and flags
CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
# CROSS, a GNU triplet: with Debian's cross compiler and its libraries of that architecture (scripts/install-deps.sh --arm64).
CROSS ?=
ifneq ($(CROSS),)
CC := $(if $(findstring ccache,$(CC)),ccache )$(CROSS)-gcc
PKG_CONFIG := PKG_CONFIG_LIBDIR=/usr/lib/$(CROSS)/pkgconfig:/usr/share/pkgconfig pkg-config
else
PKG_CONFIG := pkg-config
endif
AR := $(if $(CROSS),$(CROSS)-)ar
# runs a program of the other architecture, where the build needs its output
RUN := $(if $(CROSS),qemu-$(firstword $(subst -, ,$(CROSS)))-static)
PREFIX ?= /usr/local
# where libsplit and its module for local: go; libsplit looks for the module in its own folder first
LIBDIR ?= $(PREFIX)/lib
MODULEDIR ?= $(LIBDIR)
# Below /usr, Debian's Python reads lib/python3; below /usr/local, only the folder of its version.
PYTHONDIR ?= $(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(shell /usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])'))/dist-packages
SAN ?=
Q := $(if $(V),,@)
T ?=
comma := ,
VARIANT := $(if $(CROSS),$(CROSS)-)$(if $(SAN),san-$(subst $(comma),-,$(SAN)),release)
B := build/$(VARIANT)

PKGS := libzmq libsodium libprotobuf-c libuv openblas yaml-0.1 jansson libxxhash libzstd zlib libpng libjpeg libwebp libtiff-4 libarchive libpcre2-8 libutf8proc
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)
TEST_LIBS := -lcmocka
MPI := $(if $(CROSS),,$(firstword $(foreach p,mpi-c mpich,$(if $(shell $(PKG_CONFIG) --exists $p 2>/dev/null && echo yes),$p))))
MPI_MODULE := $(if $(MPI),$(B)/libsplit_mpi.so)
# DCMTK is detected by its header: dcmtk.pc requires packages that are not needed.
DICOM := $(if $(CROSS),,$(if $(wildcard /usr/include/dcmtk/config/osconfig.h),$(shell command -v $(firstword $(CXX)) 2>/dev/null)))
DICOM_MODULE := $(if $(DICOM),$(B)/libsplit_dicom.so)
# gold, of Debian's binutils, links the many test programs in a third of the time.
TEST_LDFLAGS := $(if $(SAN),,$(if $(shell command -v $(if $(CROSS),$(CROSS)-)ld.gold),-fuse-ld=gold))
GIT_VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# -Wno-unused-parameter: a function in a table has all parameters of its slot, also those that it ignores. WERROR=1, as in
# CI: warnings are errors. A compiler of tomorrow may have new ones, so a user's build does not stop at them.
WARN := -Wall -Wextra $(if $(WERROR),-Werror) -Wno-unused-parameter
# Hardening, as in Debian's packages. The sanitizers have checks of their own in place of FORTIFY's.
HARDEN = -fstack-protector-strong -fstack-clash-protection $(if $(SAN),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2) \
	$(if $(filter x86_64,$(MACHINE)),-fcf-protection)
# CFLAGS and LDFLAGS belong to the user. OWN is what single files need besides.
OWN :=
LINK_FLAGS = -Wl,-z,relro -Wl,-z,now $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
ifeq ($(SAN),)
OPT := -O3 -g
else
# -O1 keeps sanitizer builds short; gcc's flow warnings are wrong about instrumented code
OPT := -O1 -g -DSL_SANITIZED -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all -Wno-maybe-uninitialized -Wno-format-truncation
endif
BASE_CFLAGS = $(KNOWN_MACHINE)-std=gnu11 $(WARN) $(OPT) $(HARDEN) $(OWN) -D_GNU_SOURCE= -I. -I$(B)/gen $(PKG_CFLAGS) -pthread
LDLIBS := -Wl,--as-needed $(PKG_LIBS) -lm -ldl -pthread

# Only *_avx2.c and *_avx512.c need more than plain x86-64; they are chosen at run time. Other code never contracts products
# and sums, so that results do not depend on the compiler. NEON's kernels do contract, as those of AVX2 do.
AVX2_FLAGS := -mavx2 -mfma -mf16c
AVX512_FLAGS := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mavx2
# For use-after-return checks gcc 12 aligns frames to 32 bytes, but uses aligned moves of 64 bytes in them, which fault.
AVX512_FLAGS += $(if $(findstring address,$(SAN)),--param asan-use-after-return=0)
simd = $(if $(filter %_avx512.c,$1),$(AVX512_FLAGS),$(if $(filter %_avx2.c,$1),$(AVX2_FLAGS),-ffp-contract=$(if $(filter %/simd_neon.c,$1),fast,off)))

# Sources of the SIMD levels, by the compiler's target architecture. The compiler is asked before `deps` may have installed
# one, so a failed answer is an error only where something is compiled.
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
LEVELS_x86_64 := %_x86.c %_avx2.c %_avx512.c
LEVELS_aarch64 := %_arm64.c %_neon.c
NO_MACHINE = $(if $(MACHINE),Split is built for x86-64 and arm64; $(CC) makes code for "$(MACHINE)",$(CC) is missing: run scripts/install-deps.sh)
KNOWN_MACHINE = $(if $(LEVELS_$(MACHINE)),,$(error $(NO_MACHINE)))
OTHER_LEVELS := $(filter-out $(LEVELS_$(MACHINE)),$(LEVELS_x86_64) $(LEVELS_aarch64))


# ---- sources: every .c of a room, found by wildcard. kernels/cuda and server/mpi are separate modules.
LIB_SRC := $(wildcard common/*/*.c kernels/*.c) $(filter-out $(OTHER_LEVELS),$(wildcard kernels/cpu/*.c)) \
           $(filter-out client/main.c server/main.c,$(wildcard client/*.c client/*/*.c server/*.c server/host/*.c server/trunk/*.c server/store/*.c)) $(wildcard lib/*.c)
PROTO := $(wildcard proto/*.proto)
GEN_SRC := $(PROTO:%.proto=$(B)/gen/%.pb-c.c)
GEN_HDR := $(GEN_SRC:.c=.h)
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o) $(GEN_SRC:.c=.o)
LIB := $(B)/libdaemons.a
SUPPORT_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/support/*.c tests/ref/*.c))
BINS := $(if $(wildcard client/main.c),$(B)/splitc) $(if $(wildcard server/main.c),$(B)/splits)

TEST_SRC := $(wildcard tests/unit/test_*.c tests/suite/test_*.c)
ANY_TEST := $(TEST_SRC:%.c=$(B)/%)
TEST_SH := $(wildcard tests/e2e/*.sh)
# `make test` omits the tests marked slow in tests/tiers; `make test-rest` runs those marked slow or again. T names any tests.
REST_OF_ALL := $(if $(REST),$(shell awk '$$2 ~ /slow|again/ {print $$1}' tests/tiers))
SLOW := $(if $(QUICK),$(shell awk '$$2 ~ /slow/ {print $$1}' tests/tiers))
ifneq ($(T),)
TEST_SRC := $(filter $(addprefix %/,$(addsuffix .c,$(T))),$(TEST_SRC))
TEST_SH := $(filter $(addprefix %/,$(addsuffix .sh,$(T))),$(TEST_SH))
else ifneq ($(REST),)
TEST_SRC := $(filter $(addprefix %/,$(addsuffix .c,$(REST_OF_ALL))),$(TEST_SRC))
TEST_SH := $(filter $(addprefix %/,$(addsuffix .sh,$(REST_OF_ALL))),$(TEST_SH))
else
TEST_SRC := $(filter-out $(addprefix %/,$(addsuffix .c,$(SLOW))),$(TEST_SRC))
TEST_SH := $(filter-out $(addprefix %/,$(addsuffix .sh,$(SLOW))),$(TEST_SH))
endif
TEST_BIN := $(TEST_SRC:%.c=$(B)/%)
E2E_TOOLS := $(patsubst %.c,$(B)/%,$(wildcard tests/e2e/tools/*.c))

.PHONY: FORCE lib cuda-resources help all fail deps test test-all test-rest test-fresh test-wheel test-long deb test-arm64 test-packages test-containers test-tutorial config-page prose check build-tests build-bench format format-check rooms house man wheel install install-lib dist uninstall clean demo demo-text demo-generate bench bench-peer bench-rounding bench-codecs bench-link bench-loader test-torch bundle cuda cuda-sim cuda-sim-racecheck cuda-sim-memcheck cuda-sim-traffic test-gpu gpu-bundle bench-gpu fuzz analyse sim sim-selftest

all: $(BINS) $(LIB) $(MPI_MODULE) $(DICOM_MODULE) ## build/<variant>/splitc and splits

$(LIB): $(LIB_OBJ)
	@rm -f $@
	@echo '  AR    $@'
	$(Q)$(AR) qcs $@ $^

# libsplit: what a program in another language calls (lib/split.h). It compiles the rooms that it needs again,
# position-independent. The linker takes what is used, and only split_* is exported.
LIB_API := 0
PIC_SRC := $(wildcard common/*/*.c client/link/*.c lib/*.c) $(filter-out $(OTHER_LEVELS),$(wildcard kernels/cpu/codec_*.c kernels/cpu/level*.c kernels/cpu/simd_*.c))
PIC_OBJ := $(PIC_SRC:%.c=$(B)/pic/%.o) $(PROTO:%.proto=$(B)/pic/gen/%.pb-c.o)
API_OBJ := $(filter $(B)/pic/lib/%,$(PIC_OBJ))
SHARED := $(B)/libsplit.so

# The server in the program's own process (local:). It needs OpenBLAS, so it is a module that libsplit loads.
LOCAL := $(B)/libsplit_local.so
LOCAL_SRC := $(wildcard lib/local/*.c common/*/*.c kernels/*.c server/host/*.c server/trunk/*.c server/store/*.c) \
	$(filter-out $(OTHER_LEVELS),$(wildcard kernels/cpu/*.c))
LOCAL_OBJ := $(LOCAL_SRC:%.c=$(B)/pic/%.o) $(PROTO:%.proto=$(B)/pic/gen/%.pb-c.o)

$(B)/pic/liblocal.a: $(filter-out $(B)/pic/lib/%,$(LOCAL_OBJ))
	@rm -f $@
	$(Q)$(AR) qcs $@ $^

$(LOCAL): $(filter $(B)/pic/lib/%,$(LOCAL_OBJ)) $(B)/pic/liblocal.a lib/local/local.map
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=lib/local/local.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -o $@ $(filter %.o %.a,$^) $(LDLIBS)

lib: $(SHARED) $(LOCAL) $(B)/split.pc ## build/<variant>/libsplit.so and split.pc: a script's or program's own middle

$(B)/pic/%.o: %.c Makefile | $(GEN_HDR)
	@mkdir -p $(@D)
	@echo '  CC    $< (pic)'
	$(Q)$(CC) $(BASE_CFLAGS) -fPIC -fvisibility=hidden $(call simd,$<) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/pic/gen/%.o: $(B)/gen/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -fPIC -fvisibility=hidden $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/pic/libparts.a: $(filter-out $(API_OBJ),$(PIC_OBJ))
	@rm -f $@
	$(Q)$(AR) qcs $@ $^

$(SHARED).$(LIB_API): $(API_OBJ) $(B)/pic/libparts.a lib/split.map
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) -shared -Wl,-soname,libsplit.so.$(LIB_API) -Wl,--version-script=lib/split.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -o $@ $(filter %.o %.a,$^) $(filter-out -lopenblas,$(LDLIBS))

$(SHARED): $(SHARED).$(LIB_API)
	$(Q)ln -sf $(<F) $@

$(B)/split.pc: lib/split.pc.in FORCE
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(shell sed -n 's/.*SL_VERSION "\(.*\)"/\1/p' common/base/version.h)|' $< >$@

-include $(sort $(PIC_OBJ:.o=.d) $(LOCAL_OBJ:.o=.d))

# The daemons report the version of this build, even if only the commit has changed.
$(B)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(GIT_VERSION)' | cmp -s - $@ || echo '$(GIT_VERSION)' >$@
$(foreach m,client/main.o server/main.o,$(B)/$m $(B)/fail/$m): $(B)/version
$(B)/client/main.o $(B)/server/main.o: OWN += -DSL_BUILD_VERSION='"$(GIT_VERSION)"'

$(B)/splitc: $(B)/client/main.o $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) -o $@ $^ $(LDLIBS)

$(B)/splits: $(B)/server/main.o $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) -o $@ $^ $(LDLIBS)

$(filter-out %/test_codec_memory %/test_port_memory %/test_step_memory %/test_cuda_sim %/test_gpu_codecs %/test_gpu_codec_state %/test_gpu_codec_ahead %/test_gpu_graphs %/test_gpu_tape %/test_gpu_start,$(ANY_TEST)): $(B)/%: $(B)/%.o $(SUPPORT_OBJ) $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -o $@ $< $(SUPPORT_OBJ) $(LIB) $(TEST_LIBS) $(LDLIBS)

# The device's codec kernels, compiled as C for a CPU: tests/support/cuda_sim. Shared memory is a section of its own, which
# gets redzones too. Frames stay on stacks (no fake stack for use-after-return): launches put code into them.
SIM_CHECKS := $(if $(findstring address,$(SAN)),-fsanitize-sections=sim_shared --param asan-use-after-return=0)
SIM_OBJ := $(patsubst %,$(B)/cuda-sim/%.o,$(wildcard tests/support/cuda_sim/*.c kernels/cuda/codec_*.cu kernels/cuda/codec_*.c))
CODEC_RIG := $(patsubst %,$(B)/cuda-sim/%.o,$(wildcard tests/support/gpu_codecs/*.c))
CODEC_TESTS := $(addprefix $(B)/tests/suite/test_gpu_,codecs codec_state codec_ahead)

$(SIM_OBJ) $(CODEC_RIG): $(B)/cuda-sim/%.o: % Makefile
	@mkdir -p $(@D)
	@echo '  CC    $< (on a CPU)'
	$(Q)$(CC) $(BASE_CFLAGS) -ffp-contract=off -Wno-unknown-pragmas -Itests/support/cuda_sim $(SIM_CHECKS) $(CFLAGS) -MMD -MP -x c -c -o $@ $<

-include $(SIM_OBJ:.o=.d) $(CODEC_RIG:.o=.d)

SIM_TESTS := $(B)/tests/suite/test_cuda_sim $(CODEC_TESTS)
$(SIM_TESTS:=.o): OWN += -Itests/support/cuda_sim -Wno-unknown-pragmas $(SIM_CHECKS)
$(CODEC_TESTS): $(CODEC_RIG) $(SIM_OBJ)
$(B)/tests/suite/test_cuda_sim: $(filter-out $(B)/cuda-sim/kernels/%,$(SIM_OBJ))
$(SIM_TESTS): $(B)/%: $(B)/%.o $(SUPPORT_OBJ) $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -Wl,-z,execstack -o $@ $(filter %.o,$^) $(LIB) $(TEST_LIBS) $(LDLIBS)

# These tests answer for the worker when a long loop asks it whether to give way.
$(addprefix $(B)/tests/suite/test_,op_price gives_way): TEST_LDFLAGS += $(addprefix -Wl$(comma)--wrap=sl_worker_,here turn turn_due)

# These tests count the memory that codecs, ports and steps allocate, on the host and on a device.
MEMORY_TESTS := $(addprefix $(B)/tests/suite/test_,codec_memory port_memory step_memory)
COUNTED := malloc calloc realloc sl_arena_open cudaEventCreateWithFlags
COUNTED_OBJ := $(B)/tests/support/counted/counted.o
-include $(COUNTED_OBJ:.o=.d)
$(MEMORY_TESTS:=.o) $(COUNTED_OBJ): OWN += -Itests/support/cuda_sim -Wno-unknown-pragmas
$(MEMORY_TESTS): $(B)/%: $(B)/%.o $(COUNTED_OBJ) $(CODEC_RIG) $(SIM_OBJ) $(SUPPORT_OBJ) $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -Wl,-z,execstack $(COUNTED:%=-Wl,--wrap=%) -o $@ $(filter %.o,$^) $(LIB) $(TEST_LIBS) $(LDLIBS)

# The same with a race checker (race/race.c) in place of ThreadSanitizer's library. Only kernels are instrumented.
RACE_OBJ := $(patsubst %,$(B)/cuda-sim-race/%.o,$(wildcard tests/support/cuda_sim/*.c tests/support/cuda_sim/race/*.c kernels/cuda/codec_*.cu kernels/cuda/codec_*.c))
RACE_TESTS := $(if $(SAN),,$(SIM_TESTS:$(B)/tests/suite/%=$(B)/cuda-sim-race/%))
WATCHED = -DSIM_RACECHECK $(if $(filter %.cu %/test_cuda_sim.c,$1),-fsanitize=thread -O1)

$(B)/cuda-sim-race/%.o: % Makefile
	@mkdir -p $(@D)
	@echo '  CC    $< (for races)'
	$(Q)$(CC) $(BASE_CFLAGS) -ffp-contract=off -Wno-unknown-pragmas -Itests/support/cuda_sim $(call WATCHED,$<) $(CFLAGS) -MMD -MP -x c -c -o $@ $<

$(filter-out %/test_cuda_sim,$(RACE_TESTS)): $(CODEC_RIG) $(RACE_OBJ)
$(B)/cuda-sim-race/test_cuda_sim: $(filter-out $(B)/cuda-sim-race/kernels/%,$(RACE_OBJ))
$(RACE_TESTS): $(B)/cuda-sim-race/%: $(B)/cuda-sim-race/tests/suite/%.c.o $(SUPPORT_OBJ) $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -Wl,-z,execstack -o $@ $(filter %.o,$^) $(LIB) $(TEST_LIBS) $(LDLIBS)

-include $(RACE_OBJ:.o=.d) $(RACE_TESTS:$(B)/cuda-sim-race/%=$(B)/cuda-sim-race/tests/suite/%.c.d)

# The same kernels, with their memory accesses counted instead: traffic/traffic.c.
TRAFFIC_OBJ := $(filter-out %/race/race.c.o,$(RACE_OBJ)) $(B)/cuda-sim-race/tests/support/cuda_sim/traffic/traffic.c.o \
               $(B)/cuda-sim/tests/support/gpu_codecs/sim.c.o $(B)/tests/bench/gpu_traffic.o
TRAFFIC_CALLS := cudaMemsetAsync cudaMemcpyAsync cudaStreamSynchronize cudaEventSynchronize

$(B)/tests/bench/gpu_traffic.o: OWN += -Itests/support/cuda_sim
$(B)/cuda-sim-race/gpu_traffic: $(TRAFFIC_OBJ) $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) -Wl,-z,execstack $(TRAFFIC_CALLS:%=-Wl,--wrap=%) -o $@ $(TRAFFIC_OBJ) $(LIB) $(LDLIBS)

-include $(filter %/traffic.c.d %/gpu_traffic.d,$(TRAFFIC_OBJ:.o=.d))

cuda-sim-traffic: ## what the GPU's codecs read and write, counted on a CPU (TRAFFIC_ARGS="--json --kernels --relu CODEC…")
	@$(MAKE) --no-print-directory SAN= build/release/cuda-sim-race/gpu_traffic
	@build/release/cuda-sim-race/gpu_traffic $(TRAFFIC_ARGS)

# The whole module for a CPU, with one simulated device; needs a C++ compiler. It lies in a folder of its own, so that only
# tests that ask for it (tests/e2e/gpu_on_cpu.sh) find it. Not with ThreadSanitizer, which does not support its fibers.
SIM_MODULE_SRC := $(wildcard tests/support/cuda_sim/*.c tests/support/cuda_sim/module/*.c*) $(wildcard kernels/cuda/*.cu) \
                  $(filter-out %/dnn.c,$(wildcard kernels/cuda/*.c)) $(addprefix common/base/,err.c log.c worker.c worker_turns.c clock.c buf.c pieces.c)
SIM_MODULE_OBJ := $(SIM_MODULE_SRC:%=$(B)/cuda-sim-module/%.o)
SIM_MODULE := $(if $(findstring thread,$(SAN)),,$(if $(shell command -v $(firstword $(CXX)) 2>/dev/null),$(B)/cuda-sim-module/libsplit_cuda.so))
SIM_FLAGS = -fPIC -fvisibility=hidden -ffp-contract=off -Wno-unknown-pragmas -Itests/support/cuda_sim $(SIM_CHECKS) $(CFLAGS) -MMD -MP
cuda-sim: $(SIM_MODULE) ## build/<variant>/cuda-sim-module/libsplit_cuda.so: the CUDA module on a CPU, for tests

# The same module with the race checker.
SIM_RACE_OBJ := $(SIM_MODULE_OBJ:$(B)/cuda-sim-module/%=$(B)/cuda-sim-race/module/%) $(B)/cuda-sim-race/module/tests/support/cuda_sim/race/race.c.o
RACE_MODULE := $(if $(SAN),,$(SIM_MODULE:$(B)/cuda-sim-module/%=$(B)/cuda-sim-race/module/%))
$(SIM_RACE_OBJ): SIM_FLAGS += $(call WATCHED,$<)

cuda-sim-racecheck: ## races in the GPU's kernels, looked for on a CPU (SPLIT_LONG=1: by every test)
	@$(MAKE) --no-print-directory check SAN= T=gpu_races

cuda-sim-memcheck: ## wrong addresses in them, with AddressSanitizer and UBSan (SPLIT_LONG=1: by every test)
	@$(MAKE) --no-print-directory check SAN=address,undefined T='test_cuda_sim test_gpu_codecs test_gpu_codec_state test_gpu_codec_ahead gpu_on_cpu'

$(B)/cuda-sim-module/libsplit_cuda.so: $(SIM_MODULE_OBJ)
$(B)/cuda-sim-race/module/libsplit_cuda.so: $(SIM_RACE_OBJ)
$(B)/cuda-sim-module/libsplit_cuda.so $(B)/cuda-sim-race/module/libsplit_cuda.so:
	@echo '  LINK  $@'
	$(Q)$(CXX) -shared -Wl,-z,defs $(LINK_FLAGS) -o $@ $^ -lm -ldl -pthread

# g++ ignores the section attribute of variables in templates, so all of a kernel's .bss is taken as shared memory.
SIM_SECTION := sim_shared,alloc,load,data,contents
define sim_cc
	@mkdir -p $(@D)
	@echo '  CC    $< (on a CPU)'
	$(Q)$(CC) $(BASE_CFLAGS) -DCU_ARCHS='"a CPU"' $(SIM_FLAGS) -c -o $@ $<
endef
define sim_cxx
	@mkdir -p $(@D)
	@echo '  CXX   $< (on a CPU)'
	$(Q)$(CXX) -std=c++17 -I. -D_GNU_SOURCE $(OPT) $(WARN) -pthread $(SIM_FLAGS) -x c++ -c -o $@ $<
	$(Q)$(if $(filter %.cu,$<),objcopy --rename-section .bss=$(SIM_SECTION) $@)
endef

$(filter %.c.o,$(SIM_MODULE_OBJ)): $(B)/cuda-sim-module/%.o: % Makefile
	$(sim_cc)

$(filter-out %.c.o,$(SIM_MODULE_OBJ)): $(B)/cuda-sim-module/%.o: % Makefile
	$(sim_cxx)

$(filter %.c.o,$(SIM_RACE_OBJ)): $(B)/cuda-sim-race/module/%.o: % Makefile
	$(sim_cc)

$(filter-out %.c.o,$(SIM_RACE_OBJ)): $(B)/cuda-sim-race/module/%.o: % Makefile
	$(sim_cxx)

-include $(SIM_MODULE_OBJ:.o=.d) $(SIM_RACE_OBJ:.o=.d)

# The module's decisions in plain C: recorded passes, and which devices it can use. The tests supply fakes of the rest.
DECIDING_OBJ := $(B)/cuda-sim/kernels/cuda/graph.c.o $(B)/cuda-sim/kernels/cuda/entry.c.o

$(DECIDING_OBJ): $(B)/cuda-sim/%.o: % Makefile
	@mkdir -p $(@D)
	@echo '  CC    $< (for tests)'
	$(Q)$(CC) $(BASE_CFLAGS) -DCU_ARCHS='"75 80 86 100"' -Itests/support/cuda_sim $(CFLAGS) -MMD -MP -c -o $@ $<

-include $(DECIDING_OBJ:.o=.d)

$(B)/tests/suite/test_gpu_start.o: OWN += -Itests/support/cuda_sim
$(B)/tests/suite/test_gpu_graphs $(B)/tests/suite/test_gpu_tape: $(B)/cuda-sim/kernels/cuda/graph.c.o
$(B)/tests/suite/test_gpu_start: $(B)/cuda-sim/kernels/cuda/entry.c.o
$(B)/tests/suite/test_gpu_graphs $(B)/tests/suite/test_gpu_tape $(B)/tests/suite/test_gpu_start: $(B)/%: $(B)/%.o $(SUPPORT_OBJ) $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(TEST_LIBS) $(LDLIBS)

$(B)/tests/e2e/tools/make_text: $(B)/tests/support/made_text.o
$(E2E_TOOLS): $(B)/%: $(B)/%.o $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LDLIBS)

# Preloaded before libc in the daemons' processes, so never together with a sanitizer.
$(B)/tests/support/preload/%.so: tests/support/preload/%.c Makefile
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) -std=gnu11 $(WARN) -O2 -g -D_GNU_SOURCE= -I. -fPIC -shared -pthread -o $@ $<

# Both daemons with failpoints (common/base/failpoint.h). Only the sources that contain failpoints are compiled again;
# they are linked before the library.
FAIL_OBJ := $(patsubst %.c,$(B)/fail/%.o,$(filter-out %/main.c,$(shell grep -l SL_FAILPOINT common/*/*.c client/*.c client/*/*.c server/*.c server/*/*.c)))
FAIL_BINS := $(B)/fail/splitc $(B)/fail/splits
fail: $(FAIL_BINS) ## build/<variant>/fail: both daemons with failpoints, for tests

$(B)/fail/%.o: OWN += -DSL_FAILPOINTS
$(B)/fail/client/main.o $(B)/fail/server/main.o: OWN += -DSL_BUILD_VERSION='"$(GIT_VERSION), with failpoints"'
$(B)/fail/%.o: %.c Makefile | $(GEN_HDR)
	@mkdir -p $(@D)
	@echo '  CC    $< (failpoints)'
	$(Q)$(CC) $(BASE_CFLAGS) $(call simd,$<) $(CFLAGS) -MMD -MP -c -o $@ $<

$(FAIL_BINS): $(B)/fail/split%: $(FAIL_OBJ) $(B)/fail/client/main.o $(B)/fail/server/main.o $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -o $@ $(B)/fail/$(if $(filter c,$*),client,server)/main.o $(FAIL_OBJ) $(LIB) $(LDLIBS)

-include $(FAIL_OBJ:.o=.d)

# The simulator of the pair: tests/sim/sim.h. Its objects come first, so that the library's of the same name stay away.
PAIR_SIM := $(B)/tests/sim/sim
PAIR_SIM_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/sim/*.c)) $(B)/tests/support/disk_model.o
# _longjmp changes stacks, which the fortified one takes for an error.
$(PAIR_SIM_OBJ): OWN += -U_FORTIFY_SOURCE
PAIR_SIM_WRAP = $(addprefix -Wl$(comma)--wrap=,$(sort $(shell sed -n 's/.*__wrap_\([a-z_]*\).*/\1/p' tests/sim/*.c)))
PAIR_SIM_FAIL = $(filter-out %/failpoint.o %/transport_zmq.o %/worker.o,$(FAIL_OBJ))
$(PAIR_SIM): $(PAIR_SIM_OBJ) $(FAIL_OBJ) $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) $(PAIR_SIM_WRAP) -o $@ $(PAIR_SIM_OBJ) $(PAIR_SIM_FAIL) $(LIB) $(LDLIBS)

-include $(PAIR_SIM_OBJ:.o=.d)

sim: all $(PAIR_SIM) ## the pair simulated under SEEDS=300 seeds: faults, kills, power cuts (JOBS=1 ROW=clip; SEED=7 [KEEP=1,4] [TRACE=1])
	@SPLITC=$(B)/splitc $(PAIR_SIM) $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST))) \
		$(if $(ROW),--row $(ROW)) $(if $(JOBS),--jobs $(JOBS)) $(if $(filter undefined,$(origin KEEP)),,--keep '$(KEEP)') $(if $(TRACE),--trace)

sim-selftest: all $(PAIR_SIM) ## plants each fault of tests/sim/planted, which the simulator must find (PLANT=NAME: only those)
	@BUILD=$(B) SPLITC=$(B)/splitc COMPILE='$(CC) $(BASE_CFLAGS) -O1 -DSL_FAILPOINTS -w' \
		LINK='$(CC) $(LINK_FLAGS) $(TEST_LDFLAGS) -Wl,-z,muldefs $(PAIR_SIM_WRAP) -o $(B)/sim-planted/sim' \
		OBJECTS='$(PAIR_SIM_OBJ) $(PAIR_SIM_FAIL)' LIBS='$(LIB) $(LDLIBS)' tests/sim/selftest.sh '$(PLANT)'

# -g1: line numbers without variables. Full debug information doubles the compile time of the inlined kernels.
$(B)/kernels/cpu/%.o: OWN += -g1

# -O1: compiling the unit tests takes longer than running them.
$(B)/tests/unit/%.o: OWN += -O1

# gcc 12 for arm64 has an internal compiler error when it vectorizes a loop over fmax(most, fabs(x)), as tests have.
ifeq ($(MACHINE),aarch64)
$(B)/tests/%.o: OWN += -fno-tree-vectorize
endif

# Keep the objects of tests: a change of one source must not rebuild them all.
.SECONDARY:

$(B)/%.o: %.c Makefile | $(GEN_HDR)
	@mkdir -p $(@D)
	@command -v pkg-config >/dev/null || { echo 'pkg-config is missing: run scripts/install-deps.sh'; exit 1; }
	@echo '  CC    $<'
	$(Q)$(CC) $(BASE_CFLAGS) $(call simd,$<) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/gen/%.o: $(B)/gen/%.c
	@echo '  CC    $<'
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h &: %.proto
	@mkdir -p $(B)/gen
	@echo '  GEN   $<'
	$(Q)protoc-c --c_out=$(B)/gen $<

-include $(LIB_OBJ:.o=.d) $(SUPPORT_OBJ:.o=.d) $(COUNTED_OBJ:.o=.d) $(TEST_BIN:=.d) $(E2E_TOOLS:=.d) $(B)/client/main.d $(B)/server/main.d

# ---- MPI: servers that train one middle together (server/trunk/ranks.h); built if mpi.h is installed

$(B)/libsplit_mpi.so: server/mpi/ranks_mpi.c server/trunk/ranks.h common/base/err.h Makefile
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CC) $(BASE_CFLAGS) $(shell $(PKG_CONFIG) --cflags $(MPI)) -fPIC -fvisibility=hidden $(CFLAGS) -shared $(LINK_FLAGS) -o $@ $< $(shell $(PKG_CONFIG) --libs $(MPI))

# ---- DICOM: medical pictures (client/data/dicom.h); built if DCMTK and a C++ compiler are installed

$(B)/libsplit_dicom.so: client/dicom/dicom_dcmtk.cc client/data/dicom.h Makefile
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)$(CXX) -std=c++17 $(WARN) -I. -fPIC -fvisibility=hidden \
		$(OPT) $(HARDEN) $(filter-out -std=% -W%,$(CFLAGS)) -shared $(filter-out %-rpath%,$(LINK_FLAGS)) -o $@ $< -ldcmjpls -ldcmjpeg -ldcmdata -loflog -lofstd

# a copy beside the fuzzer, which loads it
build/fuzz/tests/fuzz/libsplit_dicom.so: $(B)/libsplit_dicom.so
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(if $(DICOM),build/fuzz/tests/fuzz/fuzz_picture_dicom: | build/fuzz/tests/fuzz/libsplit_dicom.so)

# ---- tests. `test` and `demo` first install their packages; a second make then finds the pkg-config that the first lacked.
deps: ## install the Debian packages that build and tests need (SPLIT_NO_DEPS=1: leave them)
	@test -n "$(SPLIT_NO_DEPS)" || scripts/install-deps.sh

PARALLEL := $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
test: deps ## the tests of every day, with the build in 5 minutes on two cores
	@TEST_BEGAN=$$(date +%s) $(MAKE) --no-print-directory $(PARALLEL) QUICK=1 check

test-all: deps ## all tests: also the simulated device and the long scripts
	@TEST_BEGAN=$$(date +%s) $(MAKE) --no-print-directory $(PARALLEL) check

test-rest: deps ## what `make test` leaves out of `make test-all`
	@TEST_BEGAN=$$(date +%s) $(MAKE) --no-print-directory $(PARALLEL) REST=1 check

test-fresh: ## README's two commands on a clean Debian, by root and by a user with sudo (root; SUITE=trixie, SPLIT_FRESH=short)
	@SUITE='$(SUITE)' scripts/test-fresh.sh

test-tutorial: all ## every command of docs/tutorial.md, on two network namespaces (root, package iproute2)
	@BUILD=$(CURDIR)/$(B) scripts/test-tutorial.sh

config-page: all ## docs/config.md, from what --print-config says
	@BUILD=$(B) scripts/config-page.sh >$(B)/config.md && cp $(B)/config.md docs/config.md

prose: ## how long the sentences of pages and messages are; fails where they are too long
	@scripts/prose.py

deb: ## Debian packages in build/deb, read by lintian (DEB_BUILD_PROFILES=pkg.split.nocuda, CROSS=aarch64-linux-gnu, VERSION, SUITE=trixie)
	@SUITE='$(SUITE)' HOST_ARCH='$(if $(CROSS),$(shell dpkg-architecture -t $(CROSS) -q DEB_HOST_ARCH 2>/dev/null))' scripts/make-deb.sh

test-arm64: ## arm64, emulated by qemu: packages, tests, and pairs of both architectures (root)
	@scripts/test-arm64.sh

test-packages: ## the packages in a clean Debian with systemd: install, run, watchdog, upgrade, purge (root; SUITE=trixie)
	@SUITE='$(SUITE)' DEB_BUILD_PROFILES=pkg.split.nocuda scripts/make-deb.sh
	@SUITE='$(SUITE)' DEB_BUILD_PROFILES=pkg.split.nocuda VERSION=0.2.0+next scripts/make-deb.sh build/deb$(SUITE:%=-%)-next
	@$(MAKE) --no-print-directory $(B)/tests/e2e/tools/make_cifar
	@SUITE='$(SUITE)' BUILD=$(B) scripts/test-packages.sh

test-containers: ## the compose demo, with podman: images, up, killed, up again (root; CUDA=1: the image for GPUs too)
	@scripts/test-containers.sh

test-long: deps ## everything at length: 1,000 kills, an hour of soak, fuzzing, sanitizers (STAGES="long fuzz asan tsan lib")
	@scripts/test-long.sh $(STAGES)

# compiles the fuzzers' sources, though only `make fuzz` links them
build-tests: $(TEST_BIN) $(if $(T),,$(patsubst %.c,$(B)/%.o,$(wildcard tests/fuzz/fuzz_*.c))) $(if $(TEST_SH),$(E2E_TOOLS)) $(if $(filter $(shell grep -slE 'lib/failpoints|lib/groups|lib/vertical|/fail/|start_(slow|failing)_client|client_(stands|dies)|killed_(client|server)' tests/e2e/*.sh),$(TEST_SH)),$(FAIL_BINS)) \
             $(if $(filter %/gpu_on_cpu.sh,$(TEST_SH)),$(addprefix $(B)/tests/suite/,test_ops test_gpu test_gpu_middle)) \
             $(if $(filter %/gpu_check.sh,$(TEST_SH)),$(B)/tests/suite/test_ops) \
             $(if $(filter %/onnx_families.sh,$(TEST_SH)),$(B)/tests/suite/test_golden) \
             $(if $(filter $(shell grep -slE 'cuda-sim-module|simulated_device' tests/e2e/*.sh),$(TEST_SH)),$(SIM_MODULE)) \
             $(if $(filter %/gpu_races.sh,$(TEST_SH)),$(RACE_TESTS) $(RACE_MODULE) $(B)/tests/suite/test_ops) \
             $(if $(SAN),,$(if $(filter %/gpu_traffic.sh,$(TEST_SH)),$(B)/cuda-sim-race/gpu_traffic)) \
             $(if $(filter %/script.sh %/fronts.sh,$(TEST_SH)),$(SHARED) $(LOCAL)) \
             $(if $(SAN),,$(if $(filter %/simulated.sh,$(TEST_SH)),$(PAIR_SIM))) \
             $(if $(SAN),,$(if $(filter %/clock_back.sh,$(TEST_SH)),$(B)/tests/support/preload/clock_back.so))

check: all build-tests
	@BUILD=$(B) SAN='$(SAN)' SPLIT_QUICK='$(QUICK)' scripts/run-tests.sh $(TEST_BIN) $(TEST_SH)

# ---- benchmarks: every tests/bench/bench_*.c is a program of its own, linked with op_times.c
BENCH_BIN := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))

$(BENCH_BIN): $(B)/%: $(B)/%.o $(B)/tests/bench/op_times.o $(LIB)
	@echo '  LINK  $@'
	$(Q)$(CC) $(LINK_FLAGS) -o $@ $^ $(LDLIBS)

-include $(BENCH_BIN:=.d)

build-bench: $(BENCH_BIN)

bench: deps ## milliseconds of head, middle, tail, codecs and link (BENCH_ARGS=--json)
	@$(MAKE) --no-print-directory all build-bench
	@BUILD=$(B) tests/bench/bench.sh $(BENCH_ARGS)

# SUITE: in a Debian of that release (scripts/in-suite.sh), with its PyTorch.
ifneq ($(SUITE),)
test-torch bench-peer:
	@scripts/in-suite.sh '$(SUITE)' "make $@ BENCH_ARGS='$(BENCH_ARGS)' SPLIT_NO_DEPS='$(SPLIT_NO_DEPS)'"
else
test-torch: deps ## compare with PyTorch, live (python3-torch; SUITE=trixie: in Debian 13, as root)
	@scripts/install-deps.sh --peer
	@$(MAKE) --no-print-directory all
	BUILD=$(B) tests/golden/test-torch.sh

bench-peer: deps ## the same work in PyTorch beside it, as ratios (BENCH_ARGS=--write; SUITE=trixie: in Debian 13, as root)
	@scripts/install-deps.sh --peer
	@$(MAKE) --no-print-directory all lib build-bench
	@BUILD=$(B) tests/bench/bench-peer.sh $(BENCH_ARGS)
endif

bench-rounding: deps ## how far float32 is from float64, ours and PyTorch's (BENCH_ARGS="--quick --write --keep DIR")
	@scripts/install-deps.sh --peer
	@$(MAKE) --no-print-directory all build-bench
	@BUILD=$(B) tests/bench/bench_rounding.py $(BENCH_ARGS)

bench-codecs: deps ## every table of docs/results/codecs.md (BENCH_ARGS="--write --cut DIR")
	@$(MAKE) --no-print-directory all build-bench
	@BUILD=$(B) tests/bench/codecs_results.py $(BENCH_ARGS)

bench-link: deps ## the pair over a shaped link, in two network namespaces (root; BENCH_ARGS=--write)
	@$(MAKE) --no-print-directory all build-bench
	@BUILD=$(B) tests/bench/shaped-link.sh $(BENCH_ARGS)

bench-loader: deps ## decoded and cropped pictures a second beside torchvision and Pillow (BENCH_ARGS="--pictures 512 --threads 2")
	@scripts/install-deps.sh --peer
	@$(MAKE) --no-print-directory $(B)/tests/bench/bench_loader
	@/usr/bin/python3 tests/bench/bench_loader.py $(B)/tests/bench/bench_loader $(BENCH_ARGS)

demo: deps ## two daemons train MobileNetV2 on CIFAR-10
	@$(MAKE) --no-print-directory $(PARALLEL) all
	BUILD=$(B) scripts/demo.sh
demo-text: deps ## two daemons train a small encoder on CoLA from random weights (TEXT_DATA=FOLDER with glue/ and roberta_tokenizer/)
	@$(MAKE) --no-print-directory $(PARALLEL) all
	BUILD=$(B) scripts/demo-text.sh $(TEXT_DATA)
demo-generate: deps ## two daemons train a small decoder on CoLA's sentences, and write text (TEXT_DATA=FOLDER as above)
	@$(MAKE) --no-print-directory $(PARALLEL) all
	BUILD=$(B) scripts/demo-generate.sh $(TEXT_DATA)

# ---- fuzzing: every tests/fuzz/fuzz_*.c with libFuzzer, each for FUZZ_SECONDS from its own seeds
FUZZ_SECONDS ?= 60
FUZZ_SRC := $(filter-out $(if $(DICOM),,%/fuzz_picture_dicom.c),$(wildcard tests/fuzz/fuzz_*.c))
ifneq ($(T),)
FUZZ_SRC := $(filter $(addprefix %/,$(addsuffix .c,$(T))),$(FUZZ_SRC))
endif
FUZZ_BIN := $(FUZZ_SRC:%.c=build/fuzz/%)
FUZZ_FLAGS := -std=gnu11 -Wall -Wextra -Wno-unused-parameter -O1 -g -D_GNU_SOURCE= -I. -Ibuild/fuzz/gen $(PKG_CFLAGS) -pthread \
              -fno-sanitize-recover=undefined
# Code that reads bytes from outside: common/, rooms of client/, and the vectorised loops of decoders. The ops of kernels/
# read none; only the target that executes graphs links them.
FUZZ_LIB_SRC := $(filter-out $(OTHER_LEVELS),$(wildcard common/*/*.c client/link/*.c lib/*.c client/text/*.c client/data/*.c client/model/*.c client/persist/*.c kernels/cpu/codec_*_avx512.c kernels/cpu/codec_*_avx2.c kernels/cpu/codec_*_neon.c))
FUZZ_LIB_OBJ := $(FUZZ_LIB_SRC:%.c=build/fuzz/%.o) $(PROTO:%.proto=build/fuzz/gen/%.pb-c.o)

fuzz: $(FUZZ_BIN) ## run every fuzz target for FUZZ_SECONDS (clang)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/run-fuzz.sh $(FUZZ_BIN)

build/fuzz/libsplit.a: $(FUZZ_LIB_OBJ)
	@rm -f $@
	@echo '  AR    $@'
	$(Q)$(AR) qcs $@ $^

$(FUZZ_BIN): build/fuzz/%: %.c build/fuzz/libsplit.a
	@mkdir -p $(@D)
	@echo '  LINK  $@'
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined -MMD -MP -o $@ $< $(filter %.o,$^) build/fuzz/libsplit.a $(LDLIBS)

# The device's decoders, compiled for a CPU: tests/support/cuda_sim.
FUZZ_SIM_OBJ := $(patsubst %,build/fuzz/cuda-sim/%.o,$(wildcard tests/support/cuda_sim/*.c tests/support/gpu_codecs/sim.c kernels/cuda/codec_*.cu kernels/cuda/codec_*.c))
build/fuzz/tests/fuzz/fuzz_codec_gpu: $(FUZZ_SIM_OBJ)

$(FUZZ_SIM_OBJ): build/fuzz/cuda-sim/%.o: % Makefile
	@mkdir -p $(@D)
	@echo '  CLANG $< (on a CPU)'
	$(Q)clang $(FUZZ_FLAGS) $(if $(filter %.cu,$<),-x c++ -std=c++17 -Wno-unknown-pragmas -Wno-macro-redefined) -ffp-contract=off -Itests/support/cuda_sim \
		-fsanitize=$(if $(filter kernels/%.c,$<),fuzzer-no-link$(comma))address,undefined \
		$(if $(filter %.cu,$<),-fsanitize-coverage=inline-8bit-counters$(comma)pc-table) -MMD -MP -c -o $@ $<

-include $(FUZZ_SIM_OBJ:.o=.d)

# The ops' kernels, and the backend that they are compared with.
FUZZ_OPS_OBJ := $(patsubst %.c,build/fuzz/%.o,$(filter-out $(OTHER_LEVELS) $(FUZZ_LIB_SRC),$(wildcard kernels/cpu/*.c tests/ref/*.c)))
build/fuzz/tests/fuzz/fuzz_exec: $(FUZZ_OPS_OBJ)
# Kernels count the parts of their scratch from NULL. The reference backend is not under test, and slow.
build/fuzz/kernels/cpu/%.o: FUZZ_LESS := -fno-sanitize=pointer-overflow
build/fuzz/tests/ref/%.o: FUZZ_LESS := -fno-sanitize=all -O2

# Uses gcc's vectors and assembly, which clang cannot compile. gcc's address checks call the same runtime functions as clang's.
build/fuzz/kernels/cpu/simd_%.o: kernels/cpu/simd_%.c Makefile
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(FUZZ_FLAGS) $(call simd,$<) -fsanitize=address --param asan-use-after-return=0 -MMD -MP -c -o $@ $<

-include $(FUZZ_OPS_OBJ:.o=.d)

build/fuzz/gen/%.pb-c.c build/fuzz/gen/%.pb-c.h &: %.proto
	@mkdir -p build/fuzz/gen
	@echo '  GEN   $<'
	$(Q)protoc-c --c_out=build/fuzz/gen $<

build/fuzz/gen/%.o: build/fuzz/gen/%.c
	@echo '  CLANG $<'
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link,address,undefined -c -o $@ $<

build/fuzz/%.o: %.c Makefile | $(PROTO:%.proto=build/fuzz/gen/%.pb-c.h)
	@mkdir -p $(@D)
	@echo '  CLANG $<'
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link,address,undefined $(FUZZ_LESS) $(call simd,$<) -MMD -MP -c -o $@ $<

-include $(FUZZ_LIB_OBJ:.o=.d) $(FUZZ_BIN:=.d)

# ---- clang's static analyser reads the product, but for gcc's vectors and assembly, and what needs MPI
ANALYSED := $(patsubst %.c,build/analysed/%.txt,$(filter-out $(OTHER_LEVELS) common/base/err.c server/mpi/% $(wildcard kernels/cpu/simd_*.c),\
              $(wildcard common/*/*.c client/*/*.c server/*/*.c lib/*.c kernels/cpu/*.c)))

analyse: $(ANALYSED) ## run clang's static analyser over the product
	@scripts/analyse.py tests/analysed.tsv $^

build/analysed/%.txt: %.c tests/support/analyse.h Makefile | $(PROTO:%.proto=build/fuzz/gen/%.pb-c.h)
	@mkdir -p $(@D)
	@echo '  READ  $<'
	$(Q)clang --analyze $(FUZZ_FLAGS) $(call simd,$<) -include tests/support/analyse.h -Xanalyzer -analyzer-output=text \
		-MMD -MP -MT $@ -MF $@.d -o /dev/null $< 2>$@.part && mv $@.part $@
-include $(ANALYSED:=.d)

# ---- the CUDA module, built only if nvcc and cudnn.h are installed. gcc compiles host code, with warnings as errors. The
# module has its own hidden copy of the room `base`, so that it needs no other library of Split. It has SASS for CUDA_ARCHS
# and PTX of the oldest. If there are several toolkits, CUDA_HOME (or NVCC) chooses one with its headers and libraries.
NVCC := $(or $(NVCC),$(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc)))
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CUDNN_H := $(firstword $(wildcard $(CUDA_HOME)/include/cudnn.h $(CUDA_HOME)/targets/*/include/cudnn.h \
             /usr/include/cudnn.h /usr/include/*/cudnn.h))
CUDA_SRC := $(wildcard kernels/cuda/*.cu kernels/cuda/*.c) \
            $(addprefix common/base/,err.c log.c worker.c worker_turns.c clock.c buf.c pieces.c)
CUDA_OBJ := $(CUDA_SRC:%=$(B)/cuda-module/%.o)

ifneq ($(and $(NVCC),$(CUDNN_H),$(if $(CROSS),,native)),)
cuda: $(B)/libsplit_cuda.so ## build/<variant>/libsplit_cuda.so, where nvcc and cuDNN's header are (CUDA_ARCHS="90")
ifeq ($(origin CUDA_ARCHS),undefined)
CUDA_ARCHS = $(shell $(NVCC) --list-gpu-arch | sed -n 's/^compute_//p' | grep -xE '61|70|75|80|86|89|90|100|120' | sort -n | tr '\n' ' ')
endif
cuda-resources: cuda $(patsubst %.cu,$(B)/cuda-module/%.ptx,$(wildcard kernels/cuda/codec_*.cu)) ## registers, spills and shared memory of its kernels, and how they round, where no GPU is
	scripts/cuda-resources.sh kernels/cuda $(patsubst %.o,%.usage,$(filter %.cu.o,$(CUDA_OBJ))) $(filter %.ptx,$^)
else
cuda-resources: cuda
cuda:
	@echo 'CUDA module left out: $(if $(CROSS),it is not cross-built,$(if $(NVCC),cudnn.h,nvcc) not found)'
endif

CUDA_GENCODE = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$a,code=sm_$a) \
               -gencode arch=compute_$(firstword $(CUDA_ARCHS)),code=compute_$(firstword $(CUDA_ARCHS))
CUDA_CFLAGS = -O3 -g -I. -I$(CUDA_HOME)/include -I$(dir $(CUDNN_H)) -MMD -MP
CUDA_LIB_DIR = $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib))
# where the module looks for NVIDIA's libraries first; packages leave it empty, for the system's folders
CUDA_RPATH = $(CUDA_LIB_DIR)

# Another toolkit or other architectures: rebuild all of the module.
CUDA_CHOSEN = $(realpath $(NVCC)) $(CUDNN_H) $(CUDA_ARCHS)
$(B)/cuda-module/chosen: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA_CHOSEN)' | cmp -s - $@ || echo '$(CUDA_CHOSEN)' >$@
FORCE:
$(CUDA_OBJ): $(B)/cuda-module/chosen

$(B)/libsplit_cuda.so: $(CUDA_OBJ)
	@echo '  LINK  $@'
	$(Q)$(CC) -shared -Wl,-z,defs,-z,relro,-z,now -Wl,-rpath,'$$ORIGIN$(if $(CUDA_RPATH),:$(CUDA_RPATH))' -o $@ $^ -L$(CUDA_LIB_DIR) -lcublasLt -lcudart_static \
		-lstdc++ -lm -ldl -lrt -pthread

$(B)/cuda-module/%.cu.o: %.cu Makefile
	@mkdir -p $(@D)
	@echo '  NVCC  $<'
	$(Q)$(NVCC) -std=c++17 $(CUDA_GENCODE) $(if $(filter codec_%,$(<F)),-fmad=false) $(if $(WERROR),-Werror all-warnings) -Wno-deprecated-gpu-targets -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,$(if $(WERROR),-Werror$(comma))-Wno-unused-parameter \
		-Xptxas -v $(CUDA_CFLAGS) -c -o $@ $< 2>$(@:.o=.usage) || { cat $(@:.o=.usage) >&2; exit 1; }

$(B)/cuda-module/%.ptx: %.cu Makefile
	@mkdir -p $(@D)
	$(Q)$(NVCC) -std=c++17 -O3 -I. -fmad=false -Wno-deprecated-gpu-targets -ptx -arch=compute_$(firstword $(CUDA_ARCHS)) -o $@ $<

$(B)/cuda-module/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	@echo '  CC    $< (module)'
	$(Q)$(CC) -std=gnu11 $(WARN) $(HARDEN) -fPIC -fvisibility=hidden -ffp-contract=off -pthread -D_GNU_SOURCE= -DCU_ARCHS='"$(strip $(CUDA_ARCHS))"' \
		$(CUDA_CFLAGS) -c -o $@ $<

-include $(CUDA_OBJ:.o=.d)

GPU_TESTS := test_ops test_gpu test_gpu_middle test_gpu_codecs test_gpu_codec_state test_gpu_codec_ahead test_module
GPU_BIN := $(patsubst %,$(B)/tests/suite/%,$(filter-out test_module,$(GPU_TESTS))) $(B)/tests/unit/test_module

test-gpu: cuda ## every test that uses a GPU, on one; skipped and counted where none is
	@$(MAKE) --no-print-directory build-tests T='$(GPU_TESTS)'
	@BUILD=$(B) LD_LIBRARY_PATH=$(B):$$LD_LIBRARY_PATH scripts/run-tests.sh $(GPU_BIN)

gpu-bundle: cuda all ## build/gpu: tests, benchmarks, both daemons for a GPU host, run there by its gpu-check.sh (PAIR_DATA, PAIR_WEIGHTS)
	@$(MAKE) --no-print-directory build-tests T='$(GPU_TESTS)'
	@$(MAKE) --no-print-directory $(B)/tests/bench/bench_gpu $(B)/tests/bench/bench_gpu_codecs $(B)/tests/bench/bench_encoder
	BUILD=$(B) scripts/gpu-bundle.sh build/gpu $(PAIR_DATA) $(PAIR_WEIGHTS)

bench-gpu: cuda ## the middle on the GPU, and in PyTorch beside it
	@$(MAKE) --no-print-directory $(B)/tests/bench/bench_gpu $(B)/tests/bench/bench_gpu_codecs $(B)/tests/bench/bench_encoder
	LD_LIBRARY_PATH=$(B):$$LD_LIBRARY_PATH $(B)/tests/bench/bench_gpu --layers || [ $$? = 77 ]
	for p in tf32 bf16 fp16; do LD_LIBRARY_PATH=$(B):$$LD_LIBRARY_PATH $(B)/tests/bench/bench_gpu --precision $$p || [ $$? = 77 ] || exit 1; done
	LD_LIBRARY_PATH=$(B):$$LD_LIBRARY_PATH $(B)/tests/bench/bench_gpu_codecs || [ $$? = 77 ]
	tests/bench/bench_gpu_peer.py || [ $$? = 77 ]
	SPLIT_LIBRARIES=$(B):$$LD_LIBRARY_PATH tests/bench/bench_gpu_layers.py || [ $$? = 77 ]

# ---- a relocatable copy for hosts without packages
BUNDLE_RPATH := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'

$(B)/bundle/%: $(LIB) $(B)/client/main.o $(B)/server/main.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(LINK_FLAGS) $(BUNDLE_RPATH) -o $@ $(if $(filter splitc,$*),$(B)/client,$(B)/server)/main.o $(LIB) $(LDLIBS)

bundle: cuda $(B)/bundle/splitc $(B)/bundle/splits ## build/bundle: both daemons with their libraries, for hosts without packages
	BUILD=$(B) scripts/bundle.sh build/bundle

# ---- house keeping
format: ## clang-format every source in place
	@git ls-files -z --cached --others --exclude-standard '*.c' '*.h' '*.cu' '*.cuh' | xargs -0 -r clang-format -i

format-check: ## fail where clang-format would change a source
	@scripts/check-format.sh

rooms: ## fail where a source includes what its room may not, or files, headers and comments break a limit
	@scripts/check-rooms.sh
	@scripts/house.py --gate

house: ## the structure of the sources in figures: code by room, circles of files, flags, exports, comments
	@scripts/house.py

$(B)/man/%.1: $(B)/% scripts/man.sh common/base/err.h
	@mkdir -p $(@D)
	@echo '  MAN   $@'
	$(Q)RUN='$(RUN)' scripts/man.sh $* $< >$@

$(B)/man/split.3: scripts/man-api.py lib/split.h common/base/version.h
	@mkdir -p $(@D)
	@echo '  MAN   $@'
	$(Q)scripts/man-api.py >$@

man: $(B)/man/splitc.1 $(B)/man/splits.1 $(B)/man/split.3 ## build/<variant>/man: manual pages, from what the programs say of themselves

EXAMPLES := encoder-small decoder-small moderate-cnn
INTO := "$(DESTDIR)$(PREFIX)"
LIBS_INTO := "$(DESTDIR)$(LIBDIR)"
install: all $(B)/man/splitc.1 $(B)/man/splits.1 ## PREFIX (/usr/local), DESTDIR: daemons, manual pages, example configs, units for systemd
	install -d $(addprefix $(INTO)/,bin $(EXAMPLES:%=share/split/configs/%) share/split/prometheus lib/systemd/system share/man/man1 share/bash-completion/completions)
	install -m 644 $(B)/man/splitc.1 $(B)/man/splits.1 $(INTO)/share/man/man1/
	for p in splitc splits; do \
		install -m 644 deploy/completions/split.bash $(INTO)/share/bash-completion/completions/$$p || exit 1; done
	install -m 755 $(BINS) $(INTO)/bin/
	install -m 644 $(wildcard configs/*.yaml) $(INTO)/share/split/configs/
	for e in $(EXAMPLES); do install -m 644 configs/$$e/*.* $(INTO)/share/split/configs/$$e/ || exit 1; done
	install -m 644 $(wildcard deploy/prometheus/*.yaml) $(INTO)/share/split/prometheus/
	for u in $(notdir $(wildcard deploy/*.service)); do \
		sed 's|/usr/local/|$(PREFIX)/|' deploy/$$u | install -m 644 /dev/stdin $(INTO)/lib/systemd/system/$$u || exit 1; done
	# the CUDA module, if it was built: splits looks for it in its own folder
	$(if $(wildcard $(B)/libsplit_cuda.so),install -m 755 $(B)/libsplit_cuda.so $(INTO)/bin/)
	$(if $(MPI_MODULE),install -m 755 $(MPI_MODULE) $(INTO)/bin/)
	$(if $(DICOM_MODULE),install -m 755 $(DICOM_MODULE) $(INTO)/bin/)

install-lib: lib $(B)/man/split.3 ## PREFIX, DESTDIR, LIBDIR, PYTHONDIR: libsplit, its header and split.pc, and the Python package
	install -d $(addprefix $(INTO)/,include share/man/man3) $(LIBS_INTO)/pkgconfig "$(DESTDIR)$(MODULEDIR)" "$(DESTDIR)$(PYTHONDIR)/split"
	install -m 644 lib/split.h $(INTO)/include/
	install -m 644 $(B)/man/split.3 $(INTO)/share/man/man3/
	install -m 755 $(SHARED).$(LIB_API) $(LIBS_INTO)/
	install -m 755 $(LOCAL) "$(DESTDIR)$(MODULEDIR)"/
	ln -sf $(notdir $(SHARED)).$(LIB_API) $(LIBS_INTO)/libsplit.so
	install -m 644 $(B)/split.pc $(LIBS_INTO)/pkgconfig/
	install -m 644 $(wildcard python/split/*.py) "$(DESTDIR)$(PYTHONDIR)/split/"

wheel: ## build/wheel: the Python package with libsplit and what it links, for pip
	@[ -n "$(SPLIT_NO_DEPS)" ] || scripts/install-deps.sh --wheel
	@$(MAKE) --no-print-directory lib
	@scripts/wheel.py $(MACHINE) $(B) build/wheel

test-wheel: ## the wheel trains in a clean Debian without the libraries that it brings (root; SUITE=bookworm)
	@[ -n "$(SPLIT_NO_DEPS)" ] || scripts/install-deps.sh --wheel --fresh
	@$(MAKE) --no-print-directory all lib
	@BUILD=$(B) SUITE='$(SUITE)' scripts/test-wheel.sh

dist: all ## build/dist: a tarball of the last commit, its bill of materials (SPDX) and their sums
	@scripts/dist.sh $(B) build/dist

uninstall: ## PREFIX, DESTDIR: removes what install put there; configs in /etc, keys and stores stay
	rm -f $(INTO)/include/split.h $(INTO)/share/man/man3/split.3 $(addprefix $(LIBS_INTO)/,libsplit.so libsplit.so.$(LIB_API) pkgconfig/split.pc) "$(DESTDIR)$(MODULEDIR)"/libsplit_local.so $(patsubst python/%,"$(DESTDIR)$(PYTHONDIR)"/%,$(wildcard python/split/*.py))
	rm -f $(addprefix $(INTO)/bin/,splitc splits libsplit_cuda.so libsplit_mpi.so libsplit_dicom.so) $(addprefix $(INTO)/share/man/man1/,splitc.1 splits.1) \
		$(addprefix $(INTO)/share/bash-completion/completions/,splitc splits) \
		$(addprefix $(INTO)/lib/systemd/system/,$(notdir $(wildcard deploy/*.service)))
	rm -f $(addprefix $(INTO)/share/split/,$(wildcard configs/*.yaml $(EXAMPLES:%=configs/%/*))) $(patsubst deploy/%,$(INTO)/share/split/%,$(wildcard deploy/prometheus/*.yaml))
	-rmdir $(EXAMPLES:%=$(INTO)/share/split/configs/%) $(INTO)/share/split/configs $(INTO)/share/split/prometheus $(INTO)/share/split

clean: ## remove build/
	rm -rf build
