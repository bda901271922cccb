/* The server "local:", which a module runs: lib/local/local.h. */
#include "lib/local/local.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "lib/impl.h"

static const char file_name[] = "libsplit_local.so";

/* The module lies beside this library, or else where dlopen finds it by name. */
static void *open_module(struct sl_fail *fail)
{
	char path[PATH_MAX + sizeof file_name] = "";
	Dl_info own;
	const char *end;
	void *module;

	if (dladdr((const void *)&file_name, &own) && (end = strrchr(own.dli_fname, '/')))
		snprintf(path, sizeof path, "%.*s/%s", (int)(end - own.dli_fname), own.dli_fname, file_name);
	if (!*path || access(path, F_OK))
		snprintf(path, sizeof path, "%s", file_name);
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!module)
		sl_fail_set(fail, SL_ERR_UNAVAILABLE, "local: there is no module that computes in this process: %s",
			    dlerror());
	return module;
}

enum sl_err sl_lib_local_open(struct split_middle *m, const char *store, struct sl_fail *fail)
{
	const struct sl_local_conf conf = {.store = store, .level = (int)sl_log_level(), .line = sl_lib_log_line};
	int (*open)(void **, const struct sl_local_conf *, char *, char *);
	void *module = open_module(fail);
	char endpoint[SL_LOCAL_ENDPOINT], why[SL_LOCAL_TEXT] = "no memory for a server";
	int err;

	if (!module)
		return fail->code;
	*(void **)&open = dlsym(module, "sl_local_open");
	*(void **)&m->local_close = dlsym(module, "sl_local_close");
	if (!open || !m->local_close)
		return sl_fail_set(fail, SL_ERR_VERSION, "%s beside this library is no module of it", file_name);
	err = open(&m->local, &conf, endpoint, why);
	if (err)
		return sl_fail_set(fail, (enum sl_err)err, "%s", why);
	snprintf(m->conf.server, sizeof m->conf.server, "%s", endpoint);
	return SL_OK;
}
