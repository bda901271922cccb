/* Labels of rows of text: a class by its name or number, or a number to be predicted. */
#ifndef SL_CLIENT_TEXT_LABEL_H
#define SL_CLIENT_TEXT_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

struct sl_labels {
	const char *const *name; /* of class 0, 1 …, NULL-terminated; NULL: files hold the class' number */
	int classes;
	bool regression; /* instead: any finite number */
};

/* What the loss compares with: the class, or the number. */
union sl_label {
	int32_t label;
	float target;
};

/* DATA: the text is none of them; *fail says what would be. */
enum sl_err sl_label_read(const struct sl_labels *labels, struct sl_bytes text, union sl_label *out,
			  struct sl_fail *fail) SL_MUST_CHECK;

#endif
