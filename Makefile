# Split. `make help` lists the targets. Everything that is built lies under build/<variant>/. Here are the daemons and the
# gates; mk/ has libsplit and packages, the GPU's module, fuzzing, tests and benchmarks.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY: # objects of tests stay: a change of one source must not rebuild them all
.DEFAULT_GOAL := all
PARTS := mk/tests.mk mk/package.mk mk/gpu.mk mk/fuzz.mk mk/bench.mk
# every target with a help text, and what only other targets ask for
.PHONY: FORCE check build-tests build-bench $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' Makefile $(PARTS))
FORCE:

##@ Build and try
help: ## this list
	@awk -F':.*## ' '/^##@ / {head = substr($$0, 5); if (!seen[head]++) order[++n] = head} \
		/^[a-z0-9-]+:.*## / {of[head] = of[head] sprintf("  %-18s %s\n", $$1, $$2)} \
		END {for (i = 1; i <= n; i++) printf "%s%s\n%s", (i > 1 ? "\n" : ""), order[i], of[order[i]]}' Makefile $(PARTS)
	@printf '\nVariables\n  T=test_x (one test), DEBUG=1, SAN=address,undefined | thread, CROSS=aarch64-linux-gnu, CFLAGS, LDFLAGS,\n'
	@printf '  PREFIX, DESTDIR, SPLIT_NO_DEPS=1, FUZZ_SECONDS=60, WERROR=1, V=1\n'

# ---- variant and flags
CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
# CROSS, a GNU triplet: with Debian's cross compiler and its libraries of that architecture (scripts/install-deps.sh --arm64).
CROSS ?=
PKG_CONFIG := pkg-config
ifneq ($(CROSS),)
CC := $(if $(findstring ccache,$(CC)),ccache )$(CROSS)-gcc
PKG_CONFIG := PKG_CONFIG_LIBDIR=/usr/lib/$(CROSS)/pkgconfig:/usr/share/pkgconfig pkg-config
endif
AR := $(if $(CROSS),$(CROSS)-)ar
# runs a program of the other architecture, where the build needs its output
RUN := $(if $(CROSS),qemu-$(firstword $(subst -, ,$(CROSS)))-static)
SAN ?=
# DEBUG=1: for a debugger
DEBUG ?=
Q := $(if $(V),,@)
T ?=
comma := ,
B := build/$(if $(CROSS),$(CROSS)-)$(if $(SAN),san-$(subst $(comma),-,$(SAN)),$(if $(DEBUG),debug,release))

PKGS := libzmq libsodium libprotobuf-c libuv openblas yaml-0.1 jansson libxxhash libzstd zlib libpng libjpeg libwebp libtiff-4 libarchive libpcre2-8 libutf8proc
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
LDLIBS := -Wl,--as-needed $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null) -lm -ldl -pthread
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
# gcc's flow warnings are wrong about code that it hardly optimizes
OPT := $(if $(DEBUG),-Og -g3 -Wno-maybe-uninitialized,-O3 -g)
ifneq ($(SAN),)
# -O1 keeps sanitizer builds short; gcc's flow warnings are wrong about instrumented code
OPT := -O1 -g -DSL_SANITIZED -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all -Wno-maybe-uninitialized -Wno-format-truncation
endif
# What an object depends on besides its source. Other flags or another compiler rebuild all; WERROR and ccache do not.
FLAGS := Makefile $(B)/flags
BASE_CFLAGS = $(KNOWN_MACHINE)-std=gnu11 $(WARN) $(OPT) $(HARDEN) $(OWN) -D_GNU_SOURCE= -I. -I$(B)/gen $(PKG_CFLAGS) -pthread
PIC := -fPIC -fvisibility=hidden

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
sources = $(filter-out $(OTHER_LEVELS),$(wildcard $1))

# ---- recipes. A flavour of the objects is one rule: $(call compile,WORD,COMMAND,NOTE), with WORD and NOTE for the reader.
define says
	@mkdir -p $(@D)
	@echo '  $1 $2'
endef
define compile
	$(call says,$1,$<$(if $3, ($3)))
	$(Q)$2 -MMD -MP -c -o $@ $<
endef
# the objects of a rule, then its archives: $(call link,FLAGS,LIBRARIES)
define link
	$(call says,LINK ,$@)
	$(Q)$(CC) $(LINK_FLAGS) $1 -o $@ $(filter %.o,$^) $(filter %.a,$^) $2 $(LDLIBS)
endef
define archive
	@rm -f $@
	@echo '  AR    $@'
	$(Q)$(AR) qcs $@ $^
endef
define generate
	$(call says,GEN  ,$<)
	$(Q)protoc-c --c_out=$1 $<
endef
wrap = $(addprefix -Wl$(comma)--wrap=,$1)

CHOSEN_FLAGS = $(filter-out ccache -Werror,$(CC) $(CXX) $(BASE_CFLAGS) $(CFLAGS) $(LINK_FLAGS))
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(CHOSEN_FLAGS))' | cmp -s - $@ || echo '$(subst ','\'',$(CHOSEN_FLAGS))' >$@

# ---- both daemons: every .c of a room, found by wildcard. kernels/cuda, server/mpi and client/dicom are separate modules.
LIB_SRC := $(filter-out client/main.c server/main.c,$(call sources,common/*/*.c kernels/*.c kernels/cpu/*.c lib/*.c \
	client/*.c client/*/*.c server/*.c server/host/*.c server/group/*.c server/trunk/*.c server/store/*.c))
PROTO := $(wildcard proto/*.proto)
GEN_HDR := $(PROTO:%.proto=$(B)/gen/%.pb-c.h)
LIB := $(B)/libdaemons.a
BINS := $(B)/splitc $(B)/splits
MPI := $(if $(CROSS),,$(firstword $(foreach p,mpi-c mpich,$(if $(shell $(PKG_CONFIG) --exists $p 2>/dev/null && echo yes),$p))))
MPI_MODULE := $(if $(MPI),$(B)/libsplit_mpi.so)
# DCMTK is detected by its header: dcmtk.pc requires packages that are not needed.
DICOM := $(if $(CROSS),,$(if $(wildcard /usr/include/dcmtk/config/osconfig.h),$(shell command -v $(firstword $(CXX)) 2>/dev/null)))
DICOM_MODULE := $(if $(DICOM),$(B)/libsplit_dicom.so)

all: $(BINS) $(LIB) $(MPI_MODULE) $(DICOM_MODULE) ## build/<variant>/splitc and splits

$(LIB): $(LIB_SRC:%.c=$(B)/%.o) $(PROTO:%.proto=$(B)/gen/%.pb-c.o)
	$(archive)
$(B)/splitc: $(B)/client/main.o $(LIB)
	$(link)
$(B)/splits: $(B)/server/main.o $(LIB)
	$(link)
# The daemons report the version of this build, even if only the commit has changed.
$(B)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(GIT_VERSION)' | cmp -s - $@ || echo '$(GIT_VERSION)' >$@
$(foreach m,client/main.o server/main.o,$(B)/$m $(B)/fail/$m): $(B)/version
$(B)/client/main.o $(B)/server/main.o: OWN += -DSL_BUILD_VERSION='"$(GIT_VERSION)"'
# It has the page within it.
$(B)/common/telemetry/metrics.o: common/telemetry/web.html
# -g1: line numbers without variables. Full debug information doubles the compile time of the inlined kernels.
# Their assembly needs constants that only an optimizer finds, so DEBUG=1 optimizes them, too.
$(B)/kernels/cpu/%.o: OWN += $(if $(DEBUG),-O3,-g1)

$(B)/%.o: %.c $(FLAGS) | $(GEN_HDR)
	@command -v pkg-config >/dev/null || { echo 'pkg-config is missing: run scripts/install-deps.sh'; exit 1; }
	$(call compile,CC   ,$(CC) $(BASE_CFLAGS) $(call simd,$<) $(CFLAGS))
$(B)/gen/%.o: $(B)/gen/%.c $(FLAGS)
	$(call compile,CC   ,$(CC) $(BASE_CFLAGS) $(CFLAGS))
$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h &: %.proto
	$(call generate,$(B)/gen)

# MPI: servers that train one middle together (server/group/ranks.h); built if mpi.h is installed
$(B)/libsplit_mpi.so: server/mpi/ranks_mpi.c server/group/ranks.h common/base/err.h $(FLAGS)
	$(call says,LINK ,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(shell $(PKG_CONFIG) --cflags $(MPI)) $(PIC) $(CFLAGS) -shared $(LINK_FLAGS) -o $@ $< $(shell $(PKG_CONFIG) --libs $(MPI))
# DICOM: medical pictures (client/data/dicom.h); built if DCMTK and a C++ compiler are installed
$(B)/libsplit_dicom.so: client/dicom/dicom_dcmtk.cc client/data/dicom.h $(FLAGS)
	$(call says,LINK ,$@)
	$(Q)$(CXX) -std=c++17 $(WARN) -I. $(PIC) $(OPT) $(HARDEN) $(filter-out -std=% -W%,$(CFLAGS)) -shared \
		$(filter-out %-rpath%,$(LINK_FLAGS)) -o $@ $< -ldcmjpls -ldcmjpeg -ldcmdata -loflog -lofstd

include $(PARTS)
-include $(shell find $(B) build/fuzz build/analysed -name '*.d' 2>/dev/null)

compile-commands: ## compile_commands.json of product and tests, for clangd and other tools (jq)
	@DEBUG='$(DEBUG)' scripts/compile-commands.sh

# ---- gates and pages
##@ Check
##@ Build and try
deps: ## install the Debian packages that build and tests need (SPLIT_NO_DEPS=1: leave them)
	@test -n "$(SPLIT_NO_DEPS)" || scripts/install-deps.sh
##@ Check
format: ## clang-format every source in place
	@git ls-files -z --cached --others --exclude-standard '*.c' '*.h' '*.cu' '*.cuh' | xargs -0 -r clang-format -i
format-check: ## fail where clang-format would change a source, or a Python script uses a name that nothing defines
	@scripts/check-format.sh
rooms: ## fail where a source includes what its room may not, a codec lacks a part, or a limit is broken
	@scripts/check-rooms.sh
	@scripts/check-shell.py
	@scripts/house.py --gate
prose: ## how long the sentences of pages and messages are; fails where they are too long
	@scripts/prose.py
house: ## the structure of the sources in figures, beside the limits; how many files a commit touches
	@scripts/house.py
##@ Build and try
config-page: all ## docs/config.md, from what --print-config says
	@BUILD=$(B) scripts/config-page.sh >$(B)/config.md && cp $(B)/config.md docs/config.md
clean: ## remove build/
	rm -rf build
