/* What splitc init finds in a table: its label, columns that tell nothing, missing cells. */
#ifndef SL_CLIENT_CMD_PRESET_TABLE_H
#define SL_CLIENT_CMD_PRESET_TABLE_H

#include "client/data/csv_file.h"
#include "common/conf/conf.h"

struct sl_preset_table {
	struct sl_csv table; /* the training file, as far as it can be read */
	const char *label;   /* the column to be predicted */
	bool unclear;        /* no column is clearly the label: it is the last one */
	bool numbers;        /* the label is a quantity: fractions, large numbers, or too many different ones */
	const char *ignored[SL_CONF_LIST_MAX];
	int nignored; /* columns that only identify rows, or are empty */
	const char *dates[SL_CONF_LIST_MAX];
	int ndates;   /* columns of dates */
	bool missing; /* other columns have missing cells */
};

/* Reads the training file in `folder`, or `folder` itself if it is a file. Names lie in c->table, which the caller
 * closes. `label`: the column that the user has named; NULL: none. */
void sl_preset_table_read(struct sl_preset_table *c, const char *folder, const char *label);
/* Whether the column only identifies rows; an empty one does not. */
bool sl_preset_table_names(const struct sl_preset_table *c, const char *column);
/* The column of those who have several rows, such as patient_id; NULL: there is none. `id`: what names a row. */
const char *sl_preset_table_patient(const struct sl_preset_table *c, const char *id);
/* Takes columns of ids, of which each row may have its own, from those that are ignored. */
void sl_preset_table_spare(struct sl_preset_table *c, const struct sl_conf_list *ids);
/* Whether the evaluation's file in `folder` lacks the column, as a competition's test.csv does. */
bool sl_preset_table_hides(const char *folder, const char *label);

#endif
