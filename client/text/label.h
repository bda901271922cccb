/* Labels of rows of text: a class by its name or number, or a number to be predicted. */
#ifndef SL_CLIENT_TEXT_LABEL_H
#define SL_CLIENT_TEXT_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

struct sl_labels {
	const char *const *name; /* of class 0, 1 …, NULL-terminated; NULL: files have the class's number */
	int classes;
	bool regression; /* labels are no classes, but any finite numbers */
	double centre;   /* of such numbers, and taken off */
};

/* The target of the loss: a class, or a number. */
union sl_label {
	int32_t label;
	float target;
};

/* Reads the whole text as a finite decimal number. */
bool sl_label_number(struct sl_bytes text, double *out);
/* Reads a label. DATA: the text is none; *fail says what would be right. */
enum sl_err sl_label_read(const struct sl_labels *labels, struct sl_bytes text, union sl_label *out,
			  struct sl_fail *fail) SL_MUST_CHECK;

#endif
