/* What splitc init sees in a table: its label, columns that tell nothing, cells that are missing. */
#ifndef SL_CLIENT_CMD_PRESET_TABLE_H
#define SL_CLIENT_CMD_PRESET_TABLE_H

#include "client/data/csv_file.h"
#include "common/conf/conf.h"

struct sl_preset_table {
	struct sl_csv table; /* that of training; zeroed where it cannot be read */
	const char *label;   /* the column of that name, or else the last one */
	bool numbers;        /* the label has fractions, or is larger than numbers of classes are */
	const char *ignored[SL_CONF_LIST_MAX];
	int nignored; /* those that name rows, or have nothing */
	bool missing; /* cells are, in others */
};

/* Of `folder`, or of that file; the names that it holds lie in c->table, which the caller closes. */
void sl_preset_table_read(struct sl_preset_table *c, const char *folder);

#endif
