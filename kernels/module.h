/* Backends that live in a shared object of their own, so that one binary runs on any host: libsplit_cuda.so.
 * The module exports one symbol, sl_cuda_module(), and is opened only when asked for. It is never unloaded: the
 * libraries under it (CUDA, cuBLAS, cuDNN) do not survive that.
 *
 * Without a path it is looked for in the folder of the executable, then in the library path (LD_LIBRARY_PATH, the
 * cache of ldconfig). The module links cuBLAS (libcublasLt.so.12 or so.13), which must be in the library path. It opens
 * cuDNN (libcudnn.so.9) where that is there. Only dense convolutions with a window larger than 1×1 use cuDNN; without
 * it they run as im2col and cuBLAS. SPLIT_CUDNN names another file, or `none`.
 * Codecs that no device has yet been seen to run right are left to the host; SPLIT_CUDA_CODECS=all, which tests and
 * benchmarks set, takes them too (the lists are in kernels/cuda/codec_stage.c).
 * PyTorch's wheels bring both: export LD_LIBRARY_PATH=$(python3 -c 'import nvidia, os; r = nvidia.__path__[0];
 *       print(":".join(d for d, _, f in os.walk(r) if any(".so." in n for n in f)))') */
#ifndef SL_KERNELS_MODULE_H
#define SL_KERNELS_MODULE_H

#include <stdint.h>

#include "common/exec/backend.h"

enum { SL_MODULE_ABI = 10, SL_MODULE_TEXT = 256 };

struct sl_module_options {
	int device;         /* from 0 on, as CUDA counts */
	bool graphs;        /* passes are recorded once, as a CUDA graph each, and launched as one */
	bool overlap;       /* a task is queued while the one before it is done, and payloads are copied beside it */
	bool inexact_order; /* cuDNN may choose algorithms that add in a varying order: two runs differ in the last bits
			     */
};

/* The module's table. A new member or another meaning raises SL_MODULE_ABI; `table_bytes` catches the structs of
 * backend.h and op.h having changed under it. */
struct sl_module {
	uint32_t abi;
	uint32_t table_bytes; /* sl_module_table_bytes() of its build */
	/* One line for logs and reports: name, architecture, memory, library versions. */
	enum sl_err (*describe)(int device, char out[SL_MODULE_TEXT], struct sl_fail *fail);
	/* Fills *be; be->ops->close frees it. UNAVAILABLE: no such device, or one this module was not built for. */
	enum sl_err (*open)(struct sl_backend *be, const struct sl_module_options *options, struct sl_fail *fail);
};

typedef const struct sl_module *sl_module_fn(void);

static inline uint32_t sl_module_table_bytes(void)
{
	return (uint32_t)(sizeof(struct sl_backend_ops) + sizeof(struct sl_kernel) + sizeof(struct sl_op_call) +
			  sizeof(struct sl_op) + sizeof(struct sl_tensor) + sizeof(struct sl_backend));
}

/* `path` NULL: as said above. UNAVAILABLE, with one sentence, where the file, a library under it or its symbol is
 * missing; VERSION where it was built from other headers. */
enum sl_err sl_module_load(const char *path, const struct sl_module **out, struct sl_fail *fail) SL_MUST_CHECK;

/* Loads and opens `device` with repeatable bits. UNAVAILABLE: `device: auto` falls back to the CPU. */
enum sl_err sl_module_open(const char *path, struct sl_backend *be, int device, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_module_open_with(const char *path, struct sl_backend *be, const struct sl_module_options *options,
				struct sl_fail *fail) SL_MUST_CHECK;

#endif
