/* Lazy updates of an embedding's table (exec_tables.c), for the files that implement the executor. */
#ifndef SL_EXEC_EXEC_TABLES_H
#define SL_EXEC_EXEC_TABLES_H

#include "common/exec/optimizer.h"

enum { SL_POSTPONED_MOST = 4096 };
struct sl_exec;

/* An embedding's table. The executor postpones a row's update in steps that do not read the row. rows 0: there
 * is none, and every update is applied at once. Rows of the gradient that are not in `touched` are 0. */
struct sl_table {
	int64_t offset, rows, features; /* offset in the weight range; shape */
	int group;                      /* its parameter group */
	struct sl_update *step;         /* [n_step]: the updates that some row may lack */
	int n_step;
	uint16_t *had;    /* [rows]: how many of these updates the row has had */
	int32_t *touched; /* [n_touched]: the rows that the current step has read */
	bool *marked;     /* [rows]: whether the row is in `touched` */
	int n_touched;
	bool sorted; /* `touched` is in ascending order */
	float *zero; /* [features]: a gradient of 0 */
};

enum sl_err sl_exec_table_open(struct sl_exec *exec) SL_MUST_CHECK; /* NOMEM; the table may be closed even then */
void sl_exec_table_close(struct sl_exec *exec);
/* Begins a step: no row is touched. The caller has already zeroed the gradient's ranges (sl_exec_range). */
void sl_exec_table_begin(struct sl_exec *exec);
/* Applies the postponed updates of rows `id` [n]; call it before a pass reads them. training: they become touched. */
enum sl_err sl_exec_table_read(struct sl_exec *exec, const int32_t *id, int64_t n, bool training) SL_MUST_CHECK;
/* Applies a step's update to the touched rows, and postpones it for the others. */
enum sl_err sl_exec_table_step(struct sl_exec *exec, const struct sl_update *update) SL_MUST_CHECK;
/* Applies all postponed updates; call it before other code reads weights or moments. */
enum sl_err sl_exec_table_flush(struct sl_exec *exec) SL_MUST_CHECK;
/* sl_squares of the table's gradient. */
double sl_exec_table_squares(struct sl_exec *exec);

#endif
