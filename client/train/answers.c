#include "client/train/answers.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/link/control.h"
#include "common/telemetry/metrics.h"

static const char ending[] = ".sock";
enum { ENDING = sizeof ending - 1, TAG = 1 + 16 /* as sl_conf_default_control adds it */ };

static enum sl_err open_beside(struct sl_answers *a, struct sl_loop *loop, const char *taken,
			       char *(*answer)(void *arg, const char *request), void *arg, struct sl_fail *fail)
{
	char path[SL_CONF_SOCKET_PATH + 16];
	int stem = (int)strlen(taken) - ENDING;

	snprintf(path, sizeof path, "%.*s-%ld%s", stem, taken, (long)getpid(), ending);
	return sl_control_open(&a->control, loop, path, answer, arg, fail);
}

enum sl_err sl_answers_open(struct sl_answers *a, struct sl_loop *loop, const struct sl_conf_client *conf,
			    char *(*answer)(void *arg, const char *request), void *arg, struct sl_fail *fail)
{
	enum sl_err err = sl_control_open(&a->control, loop, conf->control, answer, arg, fail);

	if (err == SL_ERR_UNAVAILABLE && sl_conf_is_default(&sl_conf_client_schema, conf, "control"))
		err = open_beside(a, loop, conf->control, answer, arg, fail);
	if (!err)
		err = sl_conf_client_blame(conf, "metrics",
					   sl_metrics_open(&a->metrics, loop, conf->metrics, conf->metrics_hosts.item,
							   conf->metrics_hosts.n, conf->web, answer, arg, fail),
					   fail);
	return err;
}

void sl_answers_close(struct sl_answers *a)
{
	sl_control_close(a->control);
	sl_metrics_close(a->metrics);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

int sl_answers_find(const char *control, bool any_run, char found[][SL_CONF_SOCKET_PATH], int most)
{
	const char *name = strrchr(control, '/') + 1; /* the usual path is absolute */
	size_t stem = strlen(name) - ENDING - (any_run ? TAG : 0);
	char folder[SL_CONF_SOCKET_PATH];
	struct dirent *entry;
	int n = 0;
	DIR *dir;

	snprintf(folder, sizeof folder, "%.*s", (int)(name - control), control);
	dir = opendir(folder);
	while (dir && n < most && (entry = readdir(dir))) {
		size_t len = strlen(entry->d_name);

		if (len < stem + ENDING || strncmp(entry->d_name, name, stem) != 0 ||
		    strcmp(entry->d_name + len - ENDING, ending) != 0 ||
		    (entry->d_name[stem] != '-' && len != stem + ENDING))
			continue;
		if (snprintf(found[n], SL_CONF_SOCKET_PATH, "%s%s", folder, entry->d_name) < SL_CONF_SOCKET_PATH)
			n++;
	}
	if (dir)
		closedir(dir);
	qsort(found, (size_t)n, SL_CONF_SOCKET_PATH, by_name);
	return n;
}
