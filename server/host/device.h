/* The device that all sessions share: the CPU, or a GPU through the CUDA module. */
#ifndef SL_SERVER_HOST_DEVICE_H
#define SL_SERVER_HOST_DEVICE_H

#include "common/base/pool.h"
#include "common/conf/conf.h"
#include "common/exec/backend.h"

enum { SL_DEVICE_TEXT = 256 };

struct sl_device {
	struct sl_pool *pool;  /* the CPU's threads */
	struct sl_backend cpu; /* always open: runs the codecs that the device lacks */
	struct sl_backend be;  /* runs the middle; a copy of `cpu` if the device is the CPU */
	bool cpu_open, cuda_open;
	char text[SL_DEVICE_TEXT]; /* "cpu: avx512, OpenBLAS …", "cuda:0: NVIDIA …" */
};

/* Opens conf->device: "cpu"; "cuda:N", or UNAVAILABLE if that GPU does not answer; "auto": the first GPU, or the CPU
 * and a line in the log that says why. */
enum sl_err sl_device_open(struct sl_device *device, const struct sl_conf_server *conf,
			   struct sl_fail *fail) SL_MUST_CHECK;
void sl_device_close(struct sl_device *device);

#endif
