/* The tasks of GLUE (Wang et al. 2018), whose folders hold TSV files without quotes: a table of their columns, labels
 * and metrics. */
#ifndef SL_CLIENT_TEXT_GLUE_H
#define SL_CLIENT_TEXT_GLUE_H

#include "client/text/label.h"
#include "client/text/records.h"

enum sl_glue_split { SL_GLUE_TRAIN, SL_GLUE_DEV, SL_GLUE_TEST, SL_GLUE_SPLIT_COUNT };

enum sl_glue_metric { SL_GLUE_ACCURACY, SL_GLUE_MATTHEWS, SL_GLUE_F1, SL_GLUE_PEARSON };

struct sl_glue_task {
	const char *name;                      /* "cola" */
	const char *folder;                    /* as GLUE's archives name it: "CoLA" */
	const char *file[SL_GLUE_SPLIT_COUNT]; /* in the folder */
	const char *a, *b, *label;             /* columns; b NULL: one text. Test files have no labels */
	struct sl_labels labels;
	enum sl_glue_metric metric;
	bool plain;      /* train and dev have no header: CoLA, label in column 1 and text in column 3 */
	bool skip_short; /* some rows of the published files lack columns: they are left out */
};

/* Ends with a NULL name. */
extern const struct sl_glue_task sl_glue_tasks[];

/* CONFIG: no task has this name; *fail lists the tasks or suggests the nearest one. */
enum sl_err sl_glue_find(const struct sl_glue_task **out, const char *name, struct sl_fail *fail) SL_MUST_CHECK;
/* SL_GLUE_SPLIT_COUNT: none has this name. */
enum sl_glue_split sl_glue_split_of(const char *name);

/* Fills *spec for a split of the task. `dir` is the task's folder, or the folder above it. The file's path is written
 * to path[PATH_MAX], which has to outlive *spec. NOINPUT: there is no such file. */
enum sl_err sl_glue_records(const struct sl_glue_task *task, enum sl_glue_split split, const char *dir, char *path,
			    struct sl_records_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
/* Metrics beside accuracy: of a task or, without one (NULL), of own texts. NULL: none. `numbers`: a number is
 * predicted. */
const char *const *sl_glue_metrics(const struct sl_glue_task *task, bool numbers);

#endif
