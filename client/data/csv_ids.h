/* Columns of a table of every kind. In a column of ids (data.ids) each value becomes a whole number, which the network
 * looks up in a table; csv_column.h has the others. */
#ifndef SL_CLIENT_DATA_CSV_IDS_H
#define SL_CLIENT_DATA_CSV_IDS_H

#include "client/data/csv_column.h"

/* Marks the columns that spec->id_column names, by name or by pattern. DATA: there is none, or it is left out. */
enum sl_err sl_csv_ids_mark(struct sl_csv_column *column, const struct sl_csv *s, const struct sl_set_spec *spec,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Checks what the network looks up of each feature, spec->room, and sets the columns' rooms. CONFIG: it looks up
 * what is no id, reads ids as numbers, or has too few rows; *fail blames a key. */
enum sl_err sl_csv_ids_fit(struct sl_csv_column *column, int columns, const struct sl_set_spec *spec,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* These do as the functions of csv_column.h that end with the same word, also for a column of ids. DATA then: of
 * NUMBERS one is missing, is no id, or is above c->room; there are too many texts. A text that training lacks is always
 * counted in *unknown; `fill` says whether that holds for other columns. */
enum sl_err sl_csv_feature_learn(struct sl_csv_column *c, const struct sl_csv *s, int at, const bool *own, bool fill,
				 struct sl_fail *fail) SL_MUST_CHECK;
int64_t sl_csv_feature_warn(const struct sl_csv_column *c, const struct sl_csv *s, bool fill);
enum sl_err sl_csv_feature_encode(const struct sl_csv_column *c, const struct sl_csv *s, int64_t row, float *x,
				  bool fill, struct sl_csv_unknown *unknown, struct sl_fail *fail) SL_MUST_CHECK;
struct json_t *sl_csv_feature_describe(const struct sl_csv_column *c);
enum sl_err sl_csv_feature_recall(struct sl_csv_column *c, const struct json_t *from,
				  struct sl_fail *fail) SL_MUST_CHECK;

#endif
