/* The form of lines whose file's name does not show it: standard input, files of texts. */
#ifndef SL_BASE_FORM_H
#define SL_BASE_FORM_H

#include "common/base/buf.h"

enum sl_form {
	SL_FORM_EMPTY,  /* the line has no data, and says nothing */
	SL_FORM_JSON,   /* an object, or a list of them */
	SL_FORM_HEADER, /* a row with all of `names` among its cells */
	SL_FORM_OTHER   /* a text, a path, a row of data */
};

/* The form of all lines, by the first one with data. A byte order mark and blanks may come before it. `names` [n]: the
 * columns of the model. *named: how many of them are cells of the line, between commas, semicolons or tabs. */
enum sl_form sl_form_of(struct sl_bytes line, const char *const *names, int n, int *named);

#endif
