#include "client/text/glue.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/nearest.h"

/* The order of the names is that of the classes: as in Hugging Face's copy of the data. */
static const char *const binary[] = {"0", "1", NULL};
static const char *const entails[] = {"entailment", "not_entailment", NULL};
static const char *const three[] = {"entailment", "neutral", "contradiction", NULL};

/* clang-format off */
#define FILES(match)      {"train.tsv", "dev" match ".tsv", "test" match ".tsv"}
#define CLASSES(names, n) {.name = names, .classes = n}
const struct sl_glue_task sl_glue_tasks[] = {
	{"cola", "CoLA", FILES(""), "sentence", NULL, NULL, CLASSES(binary, 2), .metric = SL_GLUE_MATTHEWS, .plain = true},
	{"sst2", "SST-2", FILES(""), "sentence", NULL, "label", CLASSES(binary, 2), .metric = SL_GLUE_ACCURACY},
	{"mrpc", "MRPC", FILES(""), "#1 String", "#2 String", "Quality", CLASSES(binary, 2), .metric = SL_GLUE_F1},
	{"qqp", "QQP", FILES(""), "question1", "question2", "is_duplicate", CLASSES(binary, 2), .metric = SL_GLUE_F1, .skip_short = true},
	{"mnli", "MNLI", FILES("_matched"), "sentence1", "sentence2", "gold_label", CLASSES(three, 3), .metric = SL_GLUE_ACCURACY},
	{"mnli-mm", "MNLI", FILES("_mismatched"), "sentence1", "sentence2", "gold_label", CLASSES(three, 3), .metric = SL_GLUE_ACCURACY},
	{"qnli", "QNLI", FILES(""), "question", "sentence", "label", CLASSES(entails, 2), .metric = SL_GLUE_ACCURACY},
	{"rte", "RTE", FILES(""), "sentence1", "sentence2", "label", CLASSES(entails, 2), .metric = SL_GLUE_ACCURACY},
	{"stsb", "STS-B", FILES(""), "sentence1", "sentence2", "score", {.regression = true}, .metric = SL_GLUE_PEARSON},
	{"wnli", "WNLI", FILES(""), "sentence1", "sentence2", "label", CLASSES(binary, 2), .metric = SL_GLUE_ACCURACY},
	{.name = NULL},
};
/* clang-format on */

enum sl_err sl_glue_find(const struct sl_glue_task **out, const char *name, struct sl_fail *fail)
{
	struct sl_nearest best = {NULL, 0};
	char all[160] = "";
	size_t at = 0;

	for (const struct sl_glue_task *t = sl_glue_tasks; t->name; t++) {
		if (strcmp(t->name, name) == 0) {
			*out = t;
			return SL_OK;
		}
		sl_nearest_offer(&best, name, strlen(name), t->name);
		at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", at ? ", " : "", t->name);
	}
	if (best.name)
		return sl_fail_set(fail, SL_ERR_CONFIG, "task \"%.64s\": did you mean %s?", name, best.name);
	return sl_fail_set(fail, SL_ERR_CONFIG, "task \"%.64s\": one of %s", name, all);
}

enum sl_glue_split sl_glue_split_of(const char *name)
{
	static const char *const names[SL_GLUE_SPLIT_COUNT] = {"train", "dev", "test"};
	int i = 0;

	while (i < SL_GLUE_SPLIT_COUNT && strcmp(names[i], name) != 0)
		i++;
	return (enum sl_glue_split)i;
}

enum sl_err sl_glue_records(const struct sl_glue_task *task, enum sl_glue_split split, const char *dir, char *path,
			    struct sl_records_spec *spec, struct sl_fail *fail)
{
	bool test = split == SL_GLUE_TEST, header = test || !task->plain;
	const char *file = task->file[split];

	if (snprintf(path, PATH_MAX, "%s/%s/%s", dir, task->folder, file) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the path of %s is too long", file);
	if (access(path, F_OK) != 0) {
		int len = snprintf(path, PATH_MAX, "%s/%s", dir, file);

		if (len >= PATH_MAX || access(path, F_OK) != 0)
			return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: neither %s nor %s/%s exists", dir, file,
					   task->folder, file);
	}
	*spec = (struct sl_records_spec){.path = path,
					 .format = SL_RECORDS_TSV,
					 .header = header,
					 .skip_short = task->skip_short,
					 .a = {header ? task->a : NULL, 3},
					 .b = {task->b, -1},
					 .label = {NULL, -1}};
	if (!test)
		spec->label =
			header ? (struct sl_records_column){task->label, -1} : (struct sl_records_column){NULL, 1};
	return SL_OK;
}

const char *const *sl_glue_metrics(const struct sl_glue_task *task, bool numbers)
{
	static const char *const matthews[] = {"matthews", NULL}, *const f1[] = {"f1", NULL};
	static const char *const both[] = {"pearson", "spearman", NULL};

	if (numbers)
		return both;
	if (!task)
		return NULL;
	return task->metric == SL_GLUE_MATTHEWS ? matthews : task->metric == SL_GLUE_F1 ? f1 : NULL;
}
