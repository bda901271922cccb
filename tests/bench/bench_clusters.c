/* usage: bench_clusters CONFIG OUT [KEY=VALUE]…
 * Trains nothing: computes what crosses of a config's test set with the weights that model.weights names, as splitc
 * leak does. Writes OUT.mid_act, OUT.mid_grad (float32 [n, d]) and OUT.label (int32 [n]) for clusters.py, and prints a
 * line of JSON: n, d, classes, and the purity of sl_leak_labels_clusters of each and of both. */
#include <stdio.h>
#include <stdlib.h>

#include "client/leak/crossing.h"
#include "client/leak/labels.h"

enum { VICTIMS = 1024, AUX = 4096, MOST_SETS = 32 };

static int complain(const struct sl_fail *fail)
{
	fprintf(stderr, "bench_clusters: %s\n", fail->text);
	return sl_err_exit_status(fail->code);
}

static int put(const char *out, const char *name, const void *data, int64_t n)
{
	char path[4096];
	FILE *f;
	int bad;

	snprintf(path, sizeof path, "%s.%s", out, name);
	f = fopen(path, "wb");
	bad = !f || fwrite(data, 4, (size_t)n, f) != (size_t)n;
	return (f && fclose(f)) || bad ? 74 : 0;
}

static double purity(const struct sl_crossed *v, enum sl_dir on, int parts, int classes)
{
	const int64_t d = sl_shape_row(&v->mid);
	const struct sl_leak_vectors x = {parts, {v->act[on], v->act[SL_DIR_MID_ACT]}, {d, d}};
	int32_t *predicted = malloc((size_t)v->n * sizeof *predicted);
	double chance, found = -1;

	if (predicted)
		found = sl_leak_labels_clusters(&x, v->n, v->label, classes, predicted, &chance);
	free(predicted);
	return found;
}

int main(int argc, char **argv)
{
	struct sl_conf_client conf;
	struct sl_setup setup = {.conf = &conf, .reads = SL_READS_TEST};
	struct sl_crossed v = {0}, aux = {0};
	struct sl_fail fail;
	int status = 0, classes;
	int64_t d;

	if (argc < 3 || argc - 3 > MOST_SETS)
		return 64;
	if (sl_conf_client_load(&conf, argv[1], (const char *const *)argv + 3, argc - 3, &fail) != SL_OK ||
	    sl_setup_plan(&setup, &conf, &fail) != SL_OK ||
	    sl_setup_weights(&setup, conf.model.weights, false, &fail) != SL_OK ||
	    sl_setup_data(&setup, false, &fail) != SL_OK || sl_setup_class_weights(&setup, &fail) != SL_OK ||
	    sl_setup_backend(&setup, &fail) != SL_OK ||
	    sl_crossing_collect(&setup, VICTIMS, AUX, &v, &aux, NULL, &fail) != SL_OK)
		return complain(&fail);
	d = sl_shape_row(&v.mid);
	classes = sl_crossing_classes(&setup);
	status = put(argv[2], "mid_act", v.act[SL_DIR_MID_ACT], v.n * d);
	status = status ? status : put(argv[2], "mid_grad", v.act[SL_DIR_MID_GRAD], v.n * d);
	status = status ? status : put(argv[2], "label", v.label, v.n);
	printf("{\"n\": %lld, \"d\": %lld, \"classes\": %d, \"mid_act\": %.4f, \"mid_grad\": %.4f, \"both\": %.4f}\n",
	       (long long)v.n, (long long)d, classes, purity(&v, SL_DIR_MID_ACT, 1, classes),
	       purity(&v, SL_DIR_MID_GRAD, 1, classes), purity(&v, SL_DIR_MID_GRAD, 2, classes));
	sl_crossed_close(&v);
	sl_crossed_close(&aux);
	sl_setup_close(&setup);
	return status;
}
