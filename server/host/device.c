#include "server/host/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "kernels/cpu/cpu.h"
#include "kernels/module.h"

static enum sl_err open_cuda(struct sl_device *d, const struct sl_conf_server *conf, int index, struct sl_fail *fail)
{
	const char *plain = getenv("SPLIT_CUDA_PLAIN");
	const bool ahead = !plain || !*plain;
	const struct sl_module_options options = {
		.device = index, .graphs = ahead, .overlap = ahead, .inexact_order = !conf->deterministic};
	const struct sl_module *module;
	char text[SL_MODULE_TEXT];
	enum sl_err err = sl_module_load(NULL, &module, fail);

	if (!err)
		err = module->describe(index, text, fail);
	if (!err)
		err = sl_module_open_with(NULL, &d->be, &options, fail);
	if (err)
		return err;
	d->cuda_open = true;
	snprintf(d->text, sizeof d->text, "cuda:%d: %.200s", index, text);
	return SL_OK;
}

static enum sl_err open_cpu(struct sl_device *d, const struct sl_conf_server *conf, struct sl_fail *fail)
{
	const char *reason;
	enum sl_err err = sl_pool_open(&d->pool, conf->threads, fail);

	if (!err)
		err = sl_cpu_backend_open(&d->cpu, d->pool, fail);
	if (err)
		return err;
	d->cpu_open = true;
	if (sl_cpu_core_is_older(&reason))
		sl_log(SL_LOG_WARN, "slow-blas", "%s", reason);
	return SL_OK;
}

static void use_cpu(struct sl_device *d)
{
	d->be = d->cpu;
	snprintf(d->text, sizeof d->text, "cpu: %.200s", sl_cpu_describe());
}

static enum sl_err open_device(struct sl_device *d, const struct sl_conf_server *conf, struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err = open_cpu(d, conf, fail);

	if (err)
		return err;
	if (strncmp(conf->device, "cuda:", 5) == 0)
		return open_cuda(d, conf, atoi(conf->device + 5), fail);
	if (strcmp(conf->device, "auto") == 0) {
		if (open_cuda(d, conf, 0, &why) == SL_OK)
			return SL_OK;
		sl_log(SL_LOG_INFO, "device-cpu", "no GPU, the CPU is used: %s", why.text);
	}
	use_cpu(d);
	return SL_OK;
}

enum sl_err sl_device_open(struct sl_device *d, const struct sl_conf_server *conf, struct sl_fail *fail)
{
	enum sl_err err;

	*d = (struct sl_device){0};
	err = open_device(d, conf, fail);
	if (err)
		sl_device_close(d);
	return err;
}

void sl_device_close(struct sl_device *d)
{
	if (d->cuda_open)
		d->be.ops->close(&d->be);
	if (d->cpu_open)
		d->cpu.ops->close(&d->cpu);
	sl_pool_close(d->pool);
	*d = (struct sl_device){0};
}
