# ---- fuzzing: every tests/fuzz/fuzz_*.c with libFuzzer, each for FUZZ_SECONDS from its own seeds
FUZZ_SECONDS ?= 60
FUZZ_SRC := $(filter-out $(if $(DICOM),,%/fuzz_picture_dicom.c),$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN := $(patsubst %.c,build/fuzz/%,$(if $(T),$(filter $(addprefix %/,$(T:=.c)),$(FUZZ_SRC)),$(FUZZ_SRC)))
# tests compile the fuzzers' sources, too, though only `make fuzz` links them
build-tests: $(if $(T),,$(patsubst %.c,$(B)/%.o,$(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_FLAGS := -std=gnu11 -Wall -Wextra -Wno-unused-parameter -O1 -g -D_GNU_SOURCE= -I. -Ibuild/fuzz/gen $(PKG_CFLAGS) -pthread \
              -fno-sanitize-recover=undefined
FUZZ_CC = clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link,address,undefined
FUZZ_GEN_HDR := $(PROTO:%.proto=build/fuzz/gen/%.pb-c.h)
# Code that reads bytes from outside: common/, rooms of client/, and the vectorised loops of decoders. The ops of kernels/
# read none; only the target that executes graphs links them, with the backend that they are compared with.
FUZZ_LIB_SRC := $(call sources,common/*/*.c client/link/*.c lib/*.c client/text/*.c client/data/*.c client/model/*.c client/persist/*.c \
	kernels/cpu/codec_*_avx512.c kernels/cpu/codec_*_avx2.c kernels/cpu/codec_*_neon.c)
FUZZ_OPS_SRC := $(filter-out $(FUZZ_LIB_SRC),$(call sources,kernels/cpu/*.c tests/ref/*.c))
# Kernels count the parts of their scratch from NULL. The reference backend is not under test, and slow.
build/fuzz/kernels/cpu/%.o: FUZZ_LESS := -fno-sanitize=pointer-overflow
build/fuzz/tests/ref/%.o: FUZZ_LESS := -fno-sanitize=all -O2

##@ Test
fuzz: $(FUZZ_BIN) ## run every fuzz target for FUZZ_SECONDS (clang)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/run-fuzz.sh $(FUZZ_BIN)

build/fuzz/libsplit.a: $(FUZZ_LIB_SRC:%.c=build/fuzz/%.o) $(PROTO:%.proto=build/fuzz/gen/%.pb-c.o)
	$(archive)
$(FUZZ_SRC:%.c=build/fuzz/%): build/fuzz/%: %.c build/fuzz/libsplit.a
	$(call says,LINK ,$@)
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined -MMD -MP -o $@ $< $(filter %.o,$^) build/fuzz/libsplit.a $(LDLIBS)
build/fuzz/tests/fuzz/fuzz_align: build/fuzz/client/align/align_talk.o
build/fuzz/tests/fuzz/fuzz_group_log: build/fuzz/server/group/group_log.o
build/fuzz/tests/fuzz/fuzz_exec: $(FUZZ_OPS_SRC:%.c=build/fuzz/%.o)

build/fuzz/%.o: %.c Makefile mk/fuzz.mk | $(FUZZ_GEN_HDR)
	$(call compile,CLANG,$(FUZZ_CC) $(FUZZ_LESS) $(call simd,$<))
build/fuzz/gen/%.o: build/fuzz/gen/%.c
	$(call compile,CLANG,$(FUZZ_CC))
build/fuzz/gen/%.pb-c.c build/fuzz/gen/%.pb-c.h &: %.proto
	$(call generate,build/fuzz/gen)
# Uses gcc's vectors and assembly, which clang cannot compile. gcc's address checks call the same runtime functions as clang's.
build/fuzz/kernels/cpu/simd_%.o: kernels/cpu/simd_%.c Makefile mk/fuzz.mk
	$(call compile,CC   ,$(CC) $(FUZZ_FLAGS) $(call simd,$<) -fsanitize=address --param asan-use-after-return=0)

# The device's decoders, compiled for a CPU: tests/support/cuda_sim.
build/fuzz/tests/fuzz/fuzz_codec_gpu: $(patsubst %,build/fuzz/cuda-sim/%.o,$(SIM_DEVICE) tests/support/gpu_codecs/sim.c $(SIM_CODECS))
build/fuzz/cuda-sim/%.o: % Makefile mk/fuzz.mk
	$(call compile,CLANG,clang $(FUZZ_FLAGS) $(if $(filter %.cu,$<),-x c++ -std=c++17 -Wno-unknown-pragmas -Wno-macro-redefined) -ffp-contract=off -Itests/support/cuda_sim \
		-fsanitize=$(if $(filter kernels/%.c,$<),fuzzer-no-link$(comma))address$(comma)undefined \
		$(if $(filter %.cu,$<),-fsanitize-coverage=inline-8bit-counters$(comma)pc-table),on a CPU)

# a copy of the DICOM module beside the fuzzer, which loads it
build/fuzz/tests/fuzz/libsplit_dicom.so: $(B)/libsplit_dicom.so
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(if $(DICOM),build/fuzz/tests/fuzz/fuzz_picture_dicom: | build/fuzz/tests/fuzz/libsplit_dicom.so)

# ---- clang's static analyser reads the product, but for gcc's vectors and assembly, and what needs MPI
ANALYSED := $(patsubst %.c,build/analysed/%.txt,$(filter-out common/base/err.c server/mpi/% $(wildcard kernels/cpu/simd_*.c),\
              $(call sources,common/*/*.c client/*/*.c server/*/*.c lib/*.c kernels/cpu/*.c)))
##@ Check
analyse: $(ANALYSED) ## run clang's static analyser over the product
	@scripts/analyse.py tests/analysed.tsv $^
build/analysed/%.txt: %.c tests/support/analyse.h Makefile mk/fuzz.mk | $(FUZZ_GEN_HDR)
	$(call says,READ ,$<)
	$(Q)clang --analyze $(FUZZ_FLAGS) $(call simd,$<) -include tests/support/analyse.h -Xanalyzer -analyzer-output=text \
		-MMD -MP -MT $@ -MF $@.d -o /dev/null $< 2>$@.part && mv $@.part $@
