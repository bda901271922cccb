#include "client/run/predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { NUMBER = 32 };

static const char *value_name(const struct sl_predict *p)
{
	return p->logits ? "logit" : "probability";
}

static void put_names(const struct sl_predict *p)
{
	if (!p->task->met) {
		if (p->format == SL_PREDICT_TEXT)
			fprintf(p->out, "%8s %12s %12s\n", "sample", "number", "predicted");
		else if (p->format == SL_PREDICT_CSV)
			fputs("sample,number,predicted\n", p->out);
		return;
	}
	if (p->format == SL_PREDICT_TEXT)
		fprintf(p->out, "%8s %6s %6s  %s\n", "sample", "label", "class", value_name(p));
	if (p->format != SL_PREDICT_CSV)
		return;
	fputs("sample,label,class", p->out);
	for (int k = 0; k < p->classes; k++)
		fprintf(p->out, ",%s_%d", value_name(p), k);
	putc('\n', p->out);
}

enum sl_err sl_predict_open(struct sl_predict *p, enum sl_predict_format format, bool logits, FILE *out, int64_t batch,
			    const struct sl_learn_task *task, int classes, struct sl_fail *fail)
{
	*p = (struct sl_predict){.format = format, .logits = logits, .out = out, .task = task, .classes = classes};
	p->row = calloc((size_t)batch * (size_t)classes, sizeof *p->row);
	p->value = calloc((size_t)classes, sizeof *p->value);
	if (!p->row || !p->value) {
		sl_predict_close(p);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the logits of a batch");
	}
	put_names(p);
	return SL_OK;
}

void sl_predict_close(struct sl_predict *p)
{
	free(p->row);
	free(p->value);
	p->row = NULL;
	p->value = NULL;
}

static int best_of(const float *x, int classes)
{
	int best = 0;

	for (int k = 1; k < classes; k++)
		if (x[k] > x[best])
			best = k;
	return best;
}

/* The row's logits, or their softmax. */
static void fill_values(struct sl_predict *p, const float *x, int best)
{
	double sum = 0;

	for (int k = 0; k < p->classes; k++) {
		p->value[k] = p->logits ? (double)x[k] : exp((double)x[k] - (double)x[best]);
		sum += p->value[k];
	}
	for (int k = 0; k < p->classes && !p->logits; k++)
		p->value[k] /= sum;
}

/* A logit is a float, which nine digits give back. */
static const char *number(double x, const char *unknown, char text[NUMBER])
{
	snprintf(text, NUMBER, "%.9g", x);
	return isfinite(x) ? text : unknown;
}

static void put_text(const struct sl_predict *p, int32_t label, int best)
{
	fprintf(p->out, "%8" PRIu64 " %6d %6d  ", p->rows, (int)label, best);
	if (isfinite(p->value[best]))
		fprintf(p->out, "%.4f\n", p->value[best]);
	else
		fputs("-\n", p->out);
}

static void put_csv(const struct sl_predict *p, int32_t label, int best)
{
	char text[NUMBER];

	fprintf(p->out, "%" PRIu64 ",%d,%d", p->rows, (int)label, best);
	for (int k = 0; k < p->classes; k++)
		fprintf(p->out, ",%s", number(p->value[k], "", text));
	putc('\n', p->out);
}

static void put_json(const struct sl_predict *p, int32_t label, int best)
{
	char text[NUMBER];

	fprintf(p->out, "{\"sample\":%" PRIu64 ",\"label\":%d,\"class\":%d,\"%s\":[", p->rows, (int)label, best,
		p->logits ? "logits" : "probabilities");
	for (int k = 0; k < p->classes; k++)
		fprintf(p->out, "%s%s", k ? "," : "", number(p->value[k], "null", text));
	fputs("]}\n", p->out);
}

static void put_number(const struct sl_predict *p, double right, double predicted)
{
	static const char *const unknown[] = {
		[SL_PREDICT_TEXT] = "-", [SL_PREDICT_CSV] = "", [SL_PREDICT_JSON] = "null"};
	static const char *const form[] = {[SL_PREDICT_TEXT] = "%8" PRIu64 " %12s %12s\n",
					   [SL_PREDICT_CSV] = "%" PRIu64 ",%s,%s\n",
					   [SL_PREDICT_JSON] =
						   "{\"sample\":%" PRIu64 ",\"number\":%s,\"predicted\":%s}\n"};
	char a[NUMBER], b[NUMBER];

	fprintf(p->out, form[p->format], p->rows, number(right, unknown[p->format], a),
		number(predicted, unknown[p->format], b));
}

void sl_predict_batch(struct sl_predict *p, const void *target, int64_t rows)
{
	const int32_t *labels = target;

	for (int64_t n = 0; n < rows && !p->task->met; n++, p->rows++)
		put_number(p, ((const float *)target)[n], p->row[n]);
	if (!p->task->met)
		return;
	for (int64_t n = 0; n < rows; n++) {
		const float *x = p->row + n * p->classes;
		int best = best_of(x, p->classes);

		fill_values(p, x, best);
		switch (p->format) {
		case SL_PREDICT_TEXT:
			put_text(p, labels[n], best);
			break;
		case SL_PREDICT_CSV:
			put_csv(p, labels[n], best);
			break;
		case SL_PREDICT_JSON:
			put_json(p, labels[n], best);
			break;
		}
		p->rows++;
		p->correct += best == labels[n];
	}
}
