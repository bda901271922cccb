/* Smooth activations, with f' for backward:
 *   gelu(x) = x·Φ(x)            Φ(x) + x·φ(x): Φ and φ are the normal distribution and its density
 *   gelu, tanh: x·σ(2u), u = √(2/π)·(x + 0.044715·x³), as (1 + tanh u)/2 = σ(2u)
 *   silu(x) = x·σ(x)            σ(x) = 1 / (1 + e^−x)
 *   tanh(x)                     1 − tanh²(x)
 *   sigmoid: σ(x)               σ(x)·(1 − σ(x))
 *   hardsigmoid: h(x) = min(max(x/6 + 1/2, 0), 1)       1/6 where |x| < 3, else 0
 *   hardswish: x·h(x)           0 below −3, 1 above 3, x/3 + 1/2 between them and at 3
 *   elu(x) = x, or e^x − 1 below 0    1, or e^x
 *   softplus(x) = log(1 + e^x)        σ(x)
 *   e^x, log x, √x, 1/x               e^x, 1/x, 1/(2·√x), −1/x²
 * Hendrycks and Gimpel, "Gaussian error linear units", 2016. */
#include <math.h>

#include "tests/ref/kernels.h"

/* An activation's value and slope at x. */
struct point {
	double y, slope;
};

static struct point gelu_erf(double x)
{
	double below = 0.5 * erfc(-x * M_SQRT1_2); /* Φ: erfc keeps its digits where Φ is small */
	double density = exp(-0.5 * x * x) * 0.5 * M_SQRT1_2 * M_2_SQRTPI;

	return (struct point){x * below, below + x * density};
}

/* x·σ(v); dv is the derivative of v */
static struct point gated(double x, double v, double dv)
{
	double gate = 1 / (1 + exp(-v)), rest = 1 / (1 + exp(v));

	return (struct point){x * gate, gate + x * gate * rest * dv};
}

static struct point gelu_tanh(double x)
{
	const double root = M_SQRT2 * M_2_SQRTPI * 0.5; /* √(2/π) */

	return gated(x, 2 * root * (x + 0.044715 * x * x * x), 2 * root * (1 + 3 * 0.044715 * x * x));
}

static struct point logistic(double x)
{
	double y = 1 / (1 + exp(-x)), rest = 1 / (1 + exp(x));

	return (struct point){y, y * rest};
}

/* The slopes at ±3 follow torch. */
static struct point hard(double x, bool swish)
{
	double y = x < -3 ? 0 : x > 3 ? 1 : x / 6 + 0.5;

	if (swish)
		return (struct point){x * y, x < -3 ? 0 : x > 3 ? 1 : x / 3 + 0.5};
	return (struct point){y, x > -3 && x < 3 ? 1.0 / 6 : 0};
}

static struct point elu(double x)
{
	return x > 0 ? (struct point){x, 1} : (struct point){expm1(x), exp(x)};
}

static struct point math(int fn, double x)
{
	const double y = fn == SL_MATH_EXP ? exp(x) : fn == SL_MATH_LOG ? log(x) : fn == SL_MATH_SQRT ? sqrt(x) : 1 / x;
	const double slope = fn == SL_MATH_EXP ? y : fn == SL_MATH_LOG ? 1 / x : fn == SL_MATH_SQRT ? 0.5 / y : -y * y;

	return (struct point){y, slope};
}

static struct point at(const struct sl_op *op, double x)
{
	double y = tanh(x);

	if (op->kind == SL_OP_GELU)
		return op->u.gelu.tanh ? gelu_tanh(x) : gelu_erf(x);
	if (op->kind == SL_OP_MATH)
		return math(op->u.math.fn, x);
	if (op->kind == SL_OP_ELU)
		return elu(x);
	if (op->kind == SL_OP_SOFTPLUS)
		return (struct point){(x > 0 ? x : 0) + log1p(exp(-fabs(x))) + 0 * x, 1 / (1 + exp(-x))};
	if (op->kind == SL_OP_SIGMOID)
		return logistic(x);
	if (op->kind == SL_OP_HARDSIGMOID || op->kind == SL_OP_HARDSWISH)
		return hard(x, op->kind == SL_OP_HARDSWISH);
	return op->kind == SL_OP_SILU ? gated(x, x, 1) : (struct point){y, 1 - y * y};
}

static enum sl_err forward(const struct sl_op_call *call)
{
	const float *x = call->in[0].data;
	float *y = call->out.data;

	for (int64_t i = 0; i < sl_shape_count(&call->in[0].shape); i++)
		y[i] = (float)at(call->op, x[i]).y;
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	const float *x = call->in[0].data, *dy = call->dout.data;
	float *dx = call->din[0].data;

	for (int64_t i = 0; i < sl_shape_count(&call->dout.shape) && dx; i++)
		sl_ref_store(&dx[i], call->din_add[0], dy[i] * at(call->op, x[i]).slope);
	return SL_OK;
}

const struct sl_kernel sl_ref_gelu = {.forward = forward, .backward = backward};
const struct sl_kernel sl_ref_silu = {.forward = forward, .backward = backward};
const struct sl_kernel sl_ref_sigmoid = {.forward = forward, .backward = backward};
const struct sl_kernel sl_ref_hardsigmoid = {.forward = forward, .backward = backward};
const struct sl_kernel sl_ref_hardswish = {.forward = forward, .backward = backward};
const struct sl_kernel sl_ref_elu = {.forward = forward, .backward = backward};
const struct sl_kernel sl_ref_softplus = {.forward = forward, .backward = backward};
const struct sl_kernel sl_ref_math = {.forward = forward, .backward = backward};
const struct sl_kernel sl_ref_tanh = {.forward = forward, .backward = backward};
