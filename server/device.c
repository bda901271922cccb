#include "server/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "kernels/cpu/cpu.h"
#include "kernels/module.h"

static enum sl_err open_cuda(struct sl_device *d, const struct sl_conf_server *conf, int index, struct sl_fail *fail)
{
	const struct sl_module_options options = {.device = index, .inexact_order = !conf->deterministic};
	const struct sl_module *module;
	char text[SL_MODULE_TEXT];
	enum sl_err err = sl_module_load(NULL, &module, fail);

	if (!err)
		err = module->describe(index, text, fail);
	if (!err)
		err = sl_module_open_with(NULL, &d->be, &options, fail);
	if (err)
		return err;
	d->open = true;
	snprintf(d->text, sizeof d->text, "cuda:%d: %.200s", index, text);
	return SL_OK;
}

static enum sl_err open_cpu(struct sl_device *d, const struct sl_conf_server *conf, struct sl_fail *fail)
{
	const char *reason;
	enum sl_err err = sl_pool_open(&d->pool, conf->threads, fail);

	if (!err)
		err = sl_cpu_backend_open(&d->be, d->pool, fail);
	if (err)
		return err;
	d->open = true;
	snprintf(d->text, sizeof d->text, "cpu: %.200s, %d threads", sl_cpu_describe(), sl_pool_threads(d->pool));
	if (sl_cpu_core_is_older(&reason))
		sl_log(SL_LOG_WARN, "slow-blas", "%s", reason);
	return SL_OK;
}

enum sl_err sl_device_open(struct sl_device *d, const struct sl_conf_server *conf, struct sl_fail *fail)
{
	struct sl_fail why;

	*d = (struct sl_device){0};
	if (strncmp(conf->device, "cuda", 4) == 0)
		return open_cuda(d, conf, conf->device[4] == ':' ? atoi(conf->device + 5) : 0, fail);
	if (strcmp(conf->device, "auto") == 0) {
		if (open_cuda(d, conf, 0, &why) == SL_OK)
			return SL_OK;
		sl_log(SL_LOG_INFO, "device-cpu", "no GPU, the CPU is used: %s", why.text);
	}
	return open_cpu(d, conf, fail);
}

void sl_device_close(struct sl_device *d)
{
	if (d->open)
		d->be.ops->close(&d->be);
	sl_pool_close(d->pool);
	*d = (struct sl_device){0};
}
