/* An op as a plan would describe it, parameterized by a few numbers that a search can change. */
#ifndef SL_TESTS_OP_POINT_H
#define SL_TESTS_OP_POINT_H

#include "common/graph/op.h"

enum { SIZES = 9 /* dimensions that no attribute determines */, MOST_ATTR = 16 };
enum { N, H, W, C, OUT, KH, KW, FORM, FLAGS };

struct op_point {
	enum sl_op_kind kind;
	int64_t size[SIZES];
	double attr[MOST_ATTR][2]; /* in the order of ops.def */
};

/* Returns false if shapes and attributes do not make a valid op. */
bool op_point_op(const struct op_point *p, struct sl_op *op);

#endif
