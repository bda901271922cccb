#include "client/cmd/ask_model.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/link/control.h"

enum { TIMEOUT_MS = 10000, PAUSE_MS = 50 };

/* A new reference to the answer; NULL: nobody answers, or the answer is not JSON. */
static json_t *ask(const struct sl_conf_client *conf, const char *request)
{
	struct sl_fail fail;
	json_t *answer;
	char *text;

	if (sl_control_ask(conf->control, request, TIMEOUT_MS, &text, &fail) != SL_OK)
		return NULL;
	answer = json_loads(text, 0, NULL);
	free(text);
	return answer;
}

static const char *text_of(const json_t *answer, const char *key)
{
	const char *text = json_string_value(json_object_get(answer, key));

	return text ? text : "";
}

/* Whether the run in this log.dir has answered: another run may use the same control socket. */
static bool of_this_run(const json_t *answer, const struct sl_conf_client *conf)
{
	char dir[PATH_MAX];

	return realpath(conf->log.dir, dir) && strcmp(text_of(answer, "dir"), dir) == 0;
}

enum sl_err sl_ask_model(const struct sl_conf_client *conf, bool *there, struct sl_fail *fail)
{
	const struct timespec moment = {0, PAUSE_MS * 1000000};
	json_t *answer = ask(conf, "export");
	enum sl_err err = SL_OK;
	char request[48];

	*there = answer && of_this_run(answer, conf);
	snprintf(request, sizeof request, "export %" PRIu64,
		 (uint64_t)json_integer_value(json_object_get(answer, "number")));
	while (*there && strcmp(text_of(answer, "state"), "waiting") == 0) {
		json_decref(answer);
		nanosleep(&moment, NULL);
		answer = ask(conf, request);
		*there = answer && of_this_run(answer, conf);
	}
	if (*there && strcmp(text_of(answer, "state"), "done") != 0)
		err = sl_fail_set(fail, SL_ERR_UNAVAILABLE,
				  "the run in '%.200s' goes on, but cannot give its model now: %.200s", conf->log.dir,
				  text_of(answer, "why"));
	json_decref(answer);
	return err;
}
