# The CUDA module, and its kernels on a CPU.
# ---- the module, built only if nvcc and cudnn.h are installed. gcc compiles host code, with warnings as errors. The module
# has its own hidden copy of the room `base`, so that it needs no other library of Split. It has SASS for CUDA_ARCHS and PTX
# of the oldest. If there are several toolkits, CUDA_HOME (or NVCC) chooses one with its headers and libraries.
NVCC := $(or $(NVCC),$(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc)))
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CUDNN_H := $(firstword $(wildcard $(CUDA_HOME)/include/cudnn.h $(CUDA_HOME)/targets/*/include/cudnn.h \
             /usr/include/cudnn.h /usr/include/*/cudnn.h))
MODULE_BASE := $(addprefix common/base/,err.c log.c worker.c worker_turns.c real.c clock.c buf.c pieces.c)
CUDA_OBJ := $(patsubst %,$(B)/cuda-module/%.o,$(wildcard kernels/cuda/*.cu kernels/cuda/*.c) $(MODULE_BASE))

ifneq ($(and $(NVCC),$(CUDNN_H),$(if $(CROSS),,native)),)
##@ Build and try
cuda: $(B)/libsplit_cuda.so ## build/<variant>/libsplit_cuda.so, where nvcc and cuDNN's header are (CUDA_ARCHS="90")
ifeq ($(origin CUDA_ARCHS),undefined)
CUDA_ARCHS = $(shell $(NVCC) --list-gpu-arch | sed -n 's/^compute_//p' | grep -xE '61|70|75|80|86|89|90|100|120' | sort -n | tr '\n' ' ')
endif
##@ Measure
cuda-resources: cuda $(patsubst %.cu,$(B)/cuda-module/%.ptx,$(wildcard kernels/cuda/codec_*.cu)) ## registers, spills and shared memory of its kernels, and how they round, where no GPU is
	scripts/cuda-resources.sh kernels/cuda $(patsubst %.o,%.usage,$(filter %.cu.o,$(CUDA_OBJ))) $(filter %.ptx,$^)
else
cuda-resources: cuda
cuda:
	@echo 'CUDA module left out: $(if $(CROSS),it is not cross-built,$(if $(NVCC),cudnn.h,nvcc) not found)'
endif

CUDA_GENCODE = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$a,code=sm_$a) \
               -gencode arch=compute_$(firstword $(CUDA_ARCHS)),code=compute_$(firstword $(CUDA_ARCHS))
CUDA_CFLAGS = -O3 -g -I. -I$(CUDA_HOME)/include -I$(dir $(CUDNN_H))
CUDA_LIB_DIR = $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib))
# where the module looks for NVIDIA's libraries first; packages leave it empty, for the system's folders
CUDA_RPATH = $(CUDA_LIB_DIR)
# Another toolkit or other architectures: rebuild all of the module.
CUDA_CHOSEN = $(realpath $(NVCC)) $(CUDNN_H) $(CUDA_ARCHS)
$(B)/cuda-module/chosen: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA_CHOSEN)' | cmp -s - $@ || echo '$(CUDA_CHOSEN)' >$@
$(CUDA_OBJ): $(B)/cuda-module/chosen

$(B)/libsplit_cuda.so: $(CUDA_OBJ)
	@echo '  LINK  $@'
	$(Q)$(CC) -shared -Wl,-z,defs,-z,relro,-z,now -Wl,-rpath,'$$ORIGIN$(if $(CUDA_RPATH),:$(CUDA_RPATH))' -o $@ $^ -L$(CUDA_LIB_DIR) -lcublasLt -lcudart_static \
		-lstdc++ -lm -ldl -lrt -pthread
$(B)/cuda-module/%.cu.o: %.cu Makefile mk/gpu.mk
	$(call says,NVCC ,$<)
	$(Q)$(NVCC) -std=c++17 $(CUDA_GENCODE) $(if $(filter codec_%,$(<F)),-fmad=false) $(if $(WERROR),-Werror all-warnings) -Wno-deprecated-gpu-targets -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,$(if $(WERROR),-Werror$(comma))-Wno-unused-parameter \
		-Xptxas -v $(CUDA_CFLAGS) -MMD -MP -c -o $@ $< 2>$(@:.o=.usage) || { cat $(@:.o=.usage) >&2; exit 1; }
$(B)/cuda-module/%.ptx: %.cu Makefile mk/gpu.mk
	@mkdir -p $(@D)
	$(Q)$(NVCC) -std=c++17 -O3 -I. -fmad=false -Wno-deprecated-gpu-targets -ptx -arch=compute_$(firstword $(CUDA_ARCHS)) -o $@ $<
$(B)/cuda-module/%.c.o: %.c Makefile mk/gpu.mk
	$(call compile,CC   ,$(CC) -std=gnu11 $(WARN) $(HARDEN) $(PIC) -ffp-contract=off -pthread -D_GNU_SOURCE= -DCU_ARCHS='"$(strip $(CUDA_ARCHS))"' $(CUDA_CFLAGS),module)

# ---- what runs on a GPU
GPU_TESTS := test_ops test_gpu test_gpu_middle test_gpu_codecs test_gpu_codec_state test_gpu_codec_ahead test_module
GPU_BIN := $(patsubst %,$(B)/tests/suite/%,$(filter-out test_module,$(GPU_TESTS))) $(B)/tests/unit/test_module
GPU_BENCHES := $(addprefix $(B)/tests/bench/bench_,gpu gpu_codecs encoder segments)
ON_GPU := LD_LIBRARY_PATH=$(B):$$LD_LIBRARY_PATH
OR_NO_GPU := || [ $$? = 77 ]

##@ Test
test-gpu: cuda ## every test that uses a GPU, on one; skipped and counted where none is
	@$(MAKE) --no-print-directory build-tests T='$(GPU_TESTS)'
	@BUILD=$(B) $(ON_GPU) scripts/run-tests.sh $(GPU_BIN)
##@ Install and pack
gpu-bundle: cuda all lib ## build/gpu: tests, benchmarks, both daemons for a GPU host, run there by its gpu-check.sh (PAIR_DATA, PAIR_WEIGHTS)
	@$(MAKE) --no-print-directory build-tests T='$(GPU_TESTS)'
	@$(MAKE) --no-print-directory $(GPU_BENCHES)
	BUILD=$(B) scripts/gpu-bundle.sh build/gpu $(PAIR_DATA) $(PAIR_WEIGHTS)
##@ Measure
bench-gpu: cuda ## the middle on the GPU, and in PyTorch beside it
	@$(MAKE) --no-print-directory $(GPU_BENCHES)
	$(ON_GPU) $(B)/tests/bench/bench_gpu --layers $(OR_NO_GPU)
	for p in tf32 bf16 fp16; do $(ON_GPU) $(B)/tests/bench/bench_gpu --precision $$p $(OR_NO_GPU) || exit 1; done
	$(ON_GPU) $(B)/tests/bench/bench_gpu_codecs $(OR_NO_GPU)
	tests/bench/bench_gpu_peer.py $(OR_NO_GPU)
	SPLIT_LIBRARIES=$(B):$$LD_LIBRARY_PATH tests/bench/bench_gpu_layers.py $(OR_NO_GPU)

# ---- the device's codec kernels, compiled as C for a CPU: tests/support/cuda_sim. Shared memory of a source is a
# section, which gets redzones too. Frames stay on stacks (no fake stack for use-after-return): launches put code into them.
SIM_CHECKS := $(if $(findstring address,$(SAN)),'-fsanitize-sections=sim_shared*' --param asan-use-after-return=0)
SIM_CODECS := $(wildcard kernels/cuda/codec_*.cu kernels/cuda/codec_*.c)
SIM_DEVICE := $(wildcard tests/support/cuda_sim/*.c)
SIM_OBJ := $(patsubst %,$(B)/cuda-sim/%.o,$(SIM_DEVICE) $(SIM_CODECS))
CODEC_RIG := $(patsubst %,$(B)/cuda-sim/%.o,$(wildcard tests/support/gpu_codecs/*.c))
SIM_SHARED = sim_shared_$(basename $(<F))
SIM_INCLUDE = -Itests/support/cuda_sim -Wno-unknown-pragmas $(if $(filter %.cu,$<),-DSIM_SHARED='"$(SIM_SHARED)"')
SIM_CC = $(CC) $(BASE_CFLAGS) -ffp-contract=off $(SIM_INCLUDE)

$(B)/cuda-sim/%.o: % $(FLAGS) mk/gpu.mk
	$(call compile,CC   ,$(SIM_CC) $(SIM_CHECKS) $(CFLAGS) -x c,on a CPU)

CODEC_TESTS := $(addprefix $(B)/tests/suite/test_gpu_,codecs codec_state codec_ahead)
SIM_TESTS := $(B)/tests/suite/test_cuda_sim $(CODEC_TESTS)
$(SIM_TESTS:=.o): OWN += $(SIM_INCLUDE) $(SIM_CHECKS)
$(SIM_TESTS): TEST_LDFLAGS += -Wl,-z,execstack
$(CODEC_TESTS): $(CODEC_RIG) $(SIM_OBJ)
$(B)/tests/suite/test_cuda_sim: $(filter-out $(B)/cuda-sim/kernels/%,$(SIM_OBJ))

# These tests count the memory that codecs, ports and steps allocate, on the host and on a device.
MEMORY_TESTS := $(addprefix $(B)/tests/suite/test_,codec_memory port_memory step_memory)
COUNTED_OBJ := $(B)/tests/support/counted/counted.o
$(MEMORY_TESTS:=.o) $(COUNTED_OBJ): OWN += $(SIM_INCLUDE)
$(MEMORY_TESTS): TEST_LDFLAGS += -Wl,-z,execstack $(call wrap,malloc calloc realloc sl_arena_open cudaEventCreateWithFlags)
$(MEMORY_TESTS): $(COUNTED_OBJ) $(CODEC_RIG) $(SIM_OBJ)

# The module's decisions in plain C: recorded passes, and which devices it can use. The tests supply fakes of the rest.
$(B)/cuda-sim/kernels/cuda/entry.c.o: OWN += -DCU_ARCHS='"75 80 86 100"'
$(B)/tests/suite/test_gpu_start.o: OWN += $(SIM_INCLUDE)
$(B)/tests/suite/test_gpu_graphs $(B)/tests/suite/test_gpu_tape: $(B)/cuda-sim/kernels/cuda/graph.c.o
$(B)/tests/suite/test_gpu_start: $(B)/cuda-sim/kernels/cuda/entry.c.o

# ---- the same with a race checker (race/race.c) in place of ThreadSanitizer's library. Only kernels are instrumented.
RACE_OBJ := $(patsubst %,$(B)/cuda-sim-race/%.o,$(SIM_DEVICE) $(wildcard tests/support/cuda_sim/race/*.c) $(SIM_CODECS))
RACE_TESTS := $(if $(SAN),,$(SIM_TESTS:$(B)/tests/suite/%=$(B)/cuda-sim-race/%))
WATCHED = -DSIM_RACECHECK $(if $(filter %.cu %/test_cuda_sim.c,$1),-fsanitize=thread -O1)
$(B)/cuda-sim-race/%.o: % $(FLAGS) mk/gpu.mk
	$(call compile,CC   ,$(SIM_CC) $(call WATCHED,$<) $(CFLAGS) -x c,for races)
$(RACE_TESTS): TEST_LDFLAGS += -Wl,-z,execstack
$(RACE_TESTS): $(B)/cuda-sim-race/%: $(B)/cuda-sim-race/tests/suite/%.c.o $(SUPPORT_OBJ) $(LIB)
	$(call link,$(TEST_LDFLAGS),$(TEST_LIBS))
$(filter-out %/test_cuda_sim,$(RACE_TESTS)): $(CODEC_RIG) $(RACE_OBJ)
$(B)/cuda-sim-race/test_cuda_sim: $(filter-out $(B)/cuda-sim-race/kernels/%,$(RACE_OBJ))

# The same kernels, with their memory accesses counted instead: traffic/traffic.c.
TRAFFIC_CALLS := cudaMemsetAsync cudaMemcpyAsync cudaStreamSynchronize cudaEventSynchronize
$(B)/tests/bench/gpu_traffic.o: OWN += -Itests/support/cuda_sim
$(B)/cuda-sim-race/gpu_traffic: $(filter-out %/race/race.c.o,$(RACE_OBJ)) $(B)/cuda-sim-race/tests/support/cuda_sim/traffic/traffic.c.o \
		$(B)/cuda-sim/tests/support/gpu_codecs/sim.c.o $(B)/tests/bench/gpu_traffic.o $(LIB)
	$(call link,-Wl$(comma)-z$(comma)execstack $(call wrap,$(TRAFFIC_CALLS)))
##@ Measure
cuda-sim-traffic: ## what the GPU's codecs read and write, counted on a CPU (TRAFFIC_ARGS="--json --kernels --relu CODEC…")
	@$(MAKE) --no-print-directory SAN= build/release/cuda-sim-race/gpu_traffic
	@build/release/cuda-sim-race/gpu_traffic $(TRAFFIC_ARGS)

# ---- the whole module for a CPU, with one simulated device; needs a C++ compiler. It lies in a folder of its own, so that
# only tests that ask for it (tests/e2e/gpu_on_cpu.sh) find it. Not with ThreadSanitizer, which does not support its fibers.
SIM_MODULE_SRC := $(SIM_DEVICE) $(wildcard tests/support/cuda_sim/module/*.c* kernels/cuda/*.cu) \
                  $(filter-out %/dnn.c,$(wildcard kernels/cuda/*.c)) $(MODULE_BASE)
SIM_MODULE := $(if $(findstring thread,$(SAN)),,$(if $(shell command -v $(firstword $(CXX)) 2>/dev/null),$(B)/cuda-sim-module/libsplit_cuda.so))
RACE_MODULE := $(if $(SAN),,$(SIM_MODULE:$(B)/cuda-sim-module/%=$(B)/cuda-sim-race/module/%))
SIM_RACE_OBJ := $(patsubst %,$(B)/cuda-sim-race/module/%.o,$(SIM_MODULE_SRC) tests/support/cuda_sim/race/race.c)
SIM_FLAGS = $(PIC) -ffp-contract=off $(SIM_INCLUDE) $(SIM_CHECKS) $(CFLAGS)
$(SIM_RACE_OBJ): SIM_FLAGS += $(call WATCHED,$<)
# g++ ignores the section attribute of variables in templates, so all of a kernel's .bss is taken as shared memory.
SIM_SECTION = $(SIM_SHARED),alloc,load,data,contents
define sim_module
$1/%.c.o: %.c $(FLAGS) mk/gpu.mk
	$$(call compile,CC   ,$$(CC) $$(BASE_CFLAGS) -DCU_ARCHS='"a CPU"' $$(SIM_FLAGS),on a CPU)
$1/%.o: % $(FLAGS) mk/gpu.mk
	$$(call compile,CXX  ,$$(CXX) -std=c++17 -I. -D_GNU_SOURCE $$(OPT) $$(WARN) -pthread $$(SIM_FLAGS) -x c++,on a CPU)
	$$(Q)$$(if $$(filter %.cu,$$<),objcopy --rename-section .bss=$$(SIM_SECTION) $$@)
$1/libsplit_cuda.so:
	@echo '  LINK  $$@'
	$$(Q)$$(CXX) -shared -Wl,-z,defs $$(LINK_FLAGS) -o $$@ $$^ -lm -ldl -pthread
endef
$(foreach folder,$(B)/cuda-sim-module $(B)/cuda-sim-race/module,$(eval $(call sim_module,$(folder))))
$(B)/cuda-sim-module/libsplit_cuda.so: $(SIM_MODULE_SRC:%=$(B)/cuda-sim-module/%.o)
$(B)/cuda-sim-race/module/libsplit_cuda.so: $(SIM_RACE_OBJ)

##@ Test
cuda-sim: $(SIM_MODULE) ## build/<variant>/cuda-sim-module/libsplit_cuda.so: the CUDA module on a CPU, for tests
cuda-sim-racecheck: ## races in the GPU's kernels, looked for on a CPU (SPLIT_LONG=1: by every test)
	@$(MAKE) --no-print-directory check SAN= T=gpu_races
cuda-sim-memcheck: ## wrong addresses in them, with AddressSanitizer and UBSan (SPLIT_LONG=1: by every test)
	@$(MAKE) --no-print-directory check SAN=address,undefined T='test_cuda_sim test_gpu_codecs test_gpu_codec_state test_gpu_codec_ahead gpu_on_cpu'

# what scripts of tests/e2e run of it
SUITE_OPS := $(B)/tests/suite/test_ops
build-tests: $(call needs,gpu_on_cpu,$(SUITE_OPS) $(B)/tests/suite/test_gpu $(B)/tests/suite/test_gpu_middle) $(call needs,gpu_check,$(SUITE_OPS)) \
	$(call needs,overlap,$(B)/tests/suite/test_gpu_codec_ahead) \
	$(call needs,$(call mention,cuda-sim-module|simulated_device),$(SIM_MODULE)) $(call needs,gpu_races,$(RACE_TESTS) $(RACE_MODULE) $(SUITE_OPS)) \
	$(if $(SAN),,$(call needs,gpu_races,$(B)/cuda-sim-race/gpu_traffic))
