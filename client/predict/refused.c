/* Samples without a prediction (predict.h). */
#include <inttypes.h>

#include "client/predict/predict.h"
#include "common/base/log.h"
#include "common/telemetry/json.h"

/* name: of the sample; NULL: the line has none. */
static void put_line(const struct sl_predict *p, uint64_t number, const char *name, const struct sl_fail *why)
{
	char text[SL_FAIL_TEXT];
	json_t *line = json_pack("{s:I}", "sample", (json_int_t)number);

	snprintf(text, sizeof text, "%s", why->text);
	sl_text_make_safe(text, '?');
	if (name)
		json_object_set_new(line, "name", sl_json_text(name));
	json_object_set_new(line, "error", sl_json_text(sl_err_name(why->code)));
	json_object_set_new(line, "message", sl_json_text(text));
	sl_json_print(line, JSON_COMPACT, p->spec.out);
}

void sl_predict_refuse(struct sl_predict *p, uint64_t number, const struct sl_fail *why)
{
	put_line(p, number, NULL, why);
}

void sl_predict_pass(struct sl_predict *p, const struct sl_fail *why)
{
	char name[PATH_MAX] = "";

	if (why->code != SL_ERR_DATA && why->code != SL_ERR_NOINPUT && why->code != SL_ERR_NONFINITE) {
		p->fail = *why;
		return;
	}
	if (p->spec.set->source->sample_name)
		p->spec.set->source->sample_name(p->spec.set, (int64_t)p->rows, name, sizeof name);
	sl_text_make_safe(name, '?');
	sl_log(SL_LOG_WARN, "not-predicted", "case %s: %s", name, why->text);
	if (p->spec.format == SL_PREDICT_JSON)
		put_line(p, p->rows, name, why);
	if (!p->passed++)
		p->first = *why;
	p->fail = (struct sl_fail){.code = SL_OK};
}
