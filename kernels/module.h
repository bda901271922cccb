/* Backends in a shared object of their own, libsplit_cuda.so, so that one binary runs on any host. The
 * module exports one symbol, sl_cuda_module(). It is opened only on request, and never unloaded: the
 * libraries that it uses (CUDA, cuBLAS, cuDNN) do not survive an unload.
 *
 * Without a path, the loader looks in the folder of the executable, then in the library path
 * (LD_LIBRARY_PATH, the cache of ldconfig). The module links cuBLAS (libcublasLt.so.12 or so.13), which
 * must be in the library path. It opens cuDNN (libcudnn.so.9) if that is present. Only dense
 * convolutions with a window larger than 1×1 use cuDNN; without it they run as im2col and cuBLAS.
 * SPLIT_CUDNN names another file, or `none`.
 * A server with SPLIT_CUDA_PLAIN=1 opens it with neither graphs nor overlap: tests compare their results.
 * PyTorch's wheels contain cuBLAS and cuDNN:
 *   export LD_LIBRARY_PATH=$(python3 -c 'import nvidia, os; r = nvidia.__path__[0];
 *         print(":".join(d for d, _, f in os.walk(r) if any(".so." in n for n in f)))') */
#ifndef SL_KERNELS_MODULE_H
#define SL_KERNELS_MODULE_H

#include <stdint.h>

#include "common/exec/backend.h"

enum { SL_MODULE_ABI = 10, SL_MODULE_TEXT = 256 };

struct sl_module_options {
	int device;         /* CUDA's number of the device, from 0 on */
	bool graphs;        /* each pass is recorded once as a CUDA graph, and then launched as one */
	bool overlap;       /* the next task is queued while the GPU runs the one before it, and
			     * payloads are copied meanwhile */
	bool inexact_order; /* cuDNN may choose algorithms whose order of sums varies: two runs differ
			     * in the last bits */
};

/* The module's table. A new member or a changed meaning raises SL_MODULE_ABI; `table_bytes` detects
 * changed structs of backend.h and op.h. */
struct sl_module {
	uint32_t abi;
	uint32_t table_bytes; /* sl_module_table_bytes() of the module's build */
	/* Writes one line for logs and reports: name, architecture, memory, library versions. */
	enum sl_err (*describe)(int device, char out[SL_MODULE_TEXT], struct sl_fail *fail);
	/* Fills *be; be->ops->close frees it. UNAVAILABLE: no such device, or the module was not built
	 * for its architecture. */
	enum sl_err (*open)(struct sl_backend *be, const struct sl_module_options *options, struct sl_fail *fail);
};

typedef const struct sl_module *sl_module_fn(void);

static inline uint32_t sl_module_table_bytes(void)
{
	return (uint32_t)(sizeof(struct sl_backend_ops) + sizeof(struct sl_kernel) + sizeof(struct sl_op_call) +
			  sizeof(struct sl_op) + sizeof(struct sl_tensor) + sizeof(struct sl_backend));
}

/* Loads the module from `path`; NULL: searches as described above. UNAVAILABLE, with one sentence: the
 * file, a library that it needs or its symbol is missing. VERSION: it was built from other headers. */
enum sl_err sl_module_load(const char *path, const struct sl_module **out, struct sl_fail *fail) SL_MUST_CHECK;

/* Loads the module and opens `device` with default options: results are repeatable bit by bit.
 * UNAVAILABLE: with `device: auto` the caller falls back to the CPU. */
enum sl_err sl_module_open(const char *path, struct sl_backend *be, int device, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_module_open_with(const char *path, struct sl_backend *be, const struct sl_module_options *options,
				struct sl_fail *fail) SL_MUST_CHECK;

#endif
