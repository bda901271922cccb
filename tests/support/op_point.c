#include "tests/support/op_point.h"

#include "common/graph/graph.h"
#include "common/graph/slices.h"

static struct sl_shape input_of(const struct op_point *p)
{
	const int64_t *s = p->size;

	switch (s[FORM]) {
	case 0:
		return sl_shape4(s[N], s[H], s[W], s[C]);
	case 1:
		return sl_shape3(s[N], s[H], s[C]);
	case 2:
		return sl_shape2(s[N] * s[H], s[C]); /* tokens; H per row */
	default:
		return sl_shape1(s[N] * s[H]);
	}
}

/* Sets what a graph would derive from shapes. */
static void derive(struct sl_op *op, const struct op_point *p)
{
	const int64_t *s = p->size;
	const int c = (int)s[C], out = (int)s[OUT];

	switch (op->kind) {
	case SL_OP_CONV2D:
		op->u.conv.in_c = c;
		op->u.conv.out_c = s[FLAGS] & 2 ? c : out;
		op->u.conv.groups = s[FLAGS] & 4 ? c : op->u.conv.groups;
		op->u.conv.kh = (int)s[KH];
		op->u.conv.kw = (int)s[KW];
		op->u.conv.bias = s[FLAGS] & 1;
		break;
	case SL_OP_CONVT2D:
		op->u.convt.in_c = c;
		op->u.convt.out_c = out;
		op->u.convt.groups = 1;
		op->u.convt.kh = (int)s[KH];
		op->u.convt.kw = (int)s[KW];
		op->u.convt.bias = s[FLAGS] & 1;
		break;
	case SL_OP_BATCHNORM:
		op->u.bn.c = c;
		op->u.bn.act = (enum sl_act)(s[FLAGS] % SL_ACT_COUNT);
		break;
	case SL_OP_LINEAR:
		op->u.linear.in_f = c;
		op->u.linear.out_f = out;
		op->u.linear.bias = s[FLAGS] & 1;
		break;
	case SL_OP_EMBEDDING:
		op->u.embedding.rows = (int)(s[W] + s[H] + op->u.embedding.first);
		op->u.embedding.features = c;
		break;
	case SL_OP_LOOKUP:
		op->u.lookup = (struct sl_lookup_attr){(int)(s[W] + s[H]), out};
		break;
	case SL_OP_XENT:
		op->u.xent.classes = c;
		break;
	case SL_OP_ATTENTION:
		op->u.attention.each = s[FORM] == 1 ? (int)s[H] : 0;
		if (op->u.attention.each)
			op->most = op->u.attention.each;
		op->in_shape[1].dim[op->in_shape[1].ndim - 1] = op->in_shape[2].dim[op->in_shape[2].ndim - 1] =
			c / op->u.attention.heads * sl_attention_kv(&op->u.attention);
		break;
	case SL_OP_GATE:
		for (int i = 1; i < op->in_shape[1].ndim - 1; i++)
			op->in_shape[1].dim[i] = 1;
		break;
	case SL_OP_CONCAT:
		op->in_shape[1].dim[op->u.concat.axis ? op->u.concat.axis : op->in_shape[1].ndim - 1] = out;
		break;
	case SL_OP_REPEAT:
		op->u.repeat = (struct sl_repeat_attr){1 + (int)(s[FLAGS] % 3), {(int)s[OUT], (int)s[KH], (int)s[KW]}};
		break;
	case SL_OP_TRANSPOSE:
		op->u.transpose.tokens = s[FORM] == 2 ? (int)s[H] : 0;
		op->u.transpose.most = 0;
		break;
	default:
		break;
	}
}

/* Makes volumes of the inputs, whose slices have H rows. Back from a window there are as many slices as it makes. */
static void pile(struct sl_op *op)
{
	const struct sl_window_attr *a = &op->u.window;
	const int64_t room = op->kind == SL_OP_WINDOW && a->back
				     ? a->back + 2 * (int64_t)a->pad - (int64_t)(a->k - 1) * a->dilation - 1
				     : -1;

	if (room >= 0) {
		op->slices = (int)(room / a->stride) + 1;
		op->in_shape[0].dim[3] *= a->k;
	}
	for (int i = 0; i < op->n_in && op->slices > 0 && op->in_shape[i].ndim == 4; i++)
		op->in_shape[i].dim[1] *= op->slices;
}

static int params_of(const struct sl_op *op, const struct op_point *p)
{
	const struct sl_op_row row = sl_op_row(op->kind);

	return p->size[FLAGS] & 1 ? row.most_param : row.least_param;
}

bool op_point_op(const struct op_point *p, struct sl_op *op)
{
	struct sl_node node = sl_node_of(p->kind);
	const struct sl_attr *attr;
	struct sl_fail fail;

	*op = (struct sl_op){.kind = p->kind, .name = "op", .most = p->size[FORM] >= 2 ? (int)p->size[H] : 1};
	for (int i = 0; (attr = sl_op_attr(p->kind, i)); i++)
		for (int which = 0; which < 1 + (attr->type == SL_ATTR_PAIR); which++)
			if (!sl_attr_set(&node, attr, which, p->attr[i][which]))
				return false;
	if (p->size[H] > UINT16_MAX && p->size[FORM] > 0)
		return false;
	op->u = node.u;
	op->slices = node.slices;
	op->n_in = sl_op_row(p->kind).n_in - sl_op_is_loss(p->kind);
	for (int i = 0; i < op->n_in; i++)
		op->in_shape[i] = input_of(p);
	derive(op, p);
	op->n_param = params_of(op, p);
	pile(op);
	if (sl_slices_infer(op, &fail) != SL_OK)
		return false;
	sl_slices_fold(op);
	return true;
}
