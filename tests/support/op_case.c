#include "tests/support/op_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/graph/graph.h"

#define CONV_HW(n_, h_, w_, i_, o_, kh_, kw_, s_, p_, bias_)                          \
	{                                                                             \
		.kind = SL_OP_CONV2D, .n = n_, .h = h_, .w = w_, .c = i_, .u.conv = { \
			i_,                                                           \
			o_,                                                           \
			kh_,                                                          \
			kw_,                                                          \
			s_,                                                           \
			p_,                                                           \
			1,                                                            \
			bias_,                                                        \
			1                                                             \
		}                                                                     \
	}
#define CONV(n_, hw_, i_, o_, k_, s_, p_, bias_) CONV_HW(n_, hw_, hw_, i_, o_, k_, k_, s_, p_, bias_)
#define CONVT_GROUPED(n_, h_, w_, i_, o_, kh_, kw_, s_, p_, oph_, opw_, groups_, bias_) \
	{                                                                               \
		.kind = SL_OP_CONVT2D, .n = n_, .h = h_, .w = w_, .c = i_, .u.convt = { \
			i_,                                                             \
			o_,                                                             \
			kh_,                                                            \
			kw_,                                                            \
			s_,                                                             \
			p_,                                                             \
			oph_,                                                           \
			opw_,                                                           \
			bias_,                                                          \
			groups_                                                         \
		}                                                                       \
	}
#define CONVT(n_, h_, w_, i_, o_, kh_, kw_, s_, p_, oph_, opw_, bias_) \
	CONVT_GROUPED(n_, h_, w_, i_, o_, kh_, kw_, s_, p_, oph_, opw_, 1, bias_)
#define GROUPED(n_, h_, w_, i_, o_, kh_, kw_, s_, p_, g_, d_, bias_)                  \
	{                                                                             \
		.kind = SL_OP_CONV2D, .n = n_, .h = h_, .w = w_, .c = i_, .u.conv = { \
			i_,                                                           \
			o_,                                                           \
			kh_,                                                          \
			kw_,                                                          \
			s_,                                                           \
			p_,                                                           \
			g_,                                                           \
			bias_,                                                        \
			d_                                                            \
		}                                                                     \
	}
#define DEPTHWISE(n_, h_, w_, c_, k_, s_, p_, bias_)                                  \
	{                                                                             \
		.kind = SL_OP_CONV2D, .n = n_, .h = h_, .w = w_, .c = c_, .u.conv = { \
			c_,                                                           \
			c_,                                                           \
			k_,                                                           \
			k_,                                                           \
			s_,                                                           \
			p_,                                                           \
			c_,                                                           \
			bias_,                                                        \
			1                                                             \
		}                                                                     \
	}
#define BN_OF(n_, h_, w_, c_, act_, eval_, data_)                                                                    \
	{                                                                                                            \
		.kind = SL_OP_BATCHNORM, .n = n_, .h = h_, .w = w_, .c = c_, .eval = eval_, .data = data_, .u.bn = { \
			.c = c_,                                                                                     \
			.eps = 1e-5f,                                                                                \
			.momentum = 0.1f,                                                                            \
			.act = SL_ACT_##act_                                                                         \
		}                                                                                                    \
	}
#define BN(n_, h_, w_, c_, act_) BN_OF(n_, h_, w_, c_, act_, false, DATA_PLAIN)
#define ACT(n_, h_, w_, c_, act_, data_)                                                                     \
	{                                                                                                    \
		.kind = SL_OP_ACT, .n = n_, .h = h_, .w = w_, .c = c_, .data = data_, .u.act = SL_ACT_##act_ \
	}
#define GELU(n_, h_, w_, c_)                                           \
	{                                                              \
		.kind = SL_OP_GELU, .n = n_, .h = h_, .w = w_, .c = c_ \
	}
#define GELU_TANH(n_, h_, w_, c_)                                                           \
	{                                                                                   \
		.kind = SL_OP_GELU, .n = n_, .h = h_, .w = w_, .c = c_, .u.gelu.tanh = true \
	}
#define PLAIN(kind_, n_, h_, w_, c_)                                      \
	{                                                                 \
		.kind = SL_OP_##kind_, .n = n_, .h = h_, .w = w_, .c = c_ \
	}
#define MATH(n_, h_, w_, c_, fn_)                                                                  \
	{                                                                                          \
		.kind = SL_OP_MATH, .n = n_, .h = h_, .w = w_, .c = c_, .u.math.fn = SL_MATH_##fn_ \
	}
#define NORM(kind_, n_, s_, f_, bias_, data_)                                                        \
	{                                                                                            \
		.kind = SL_OP_##kind_, .n = n_, .h = s_, .c = f_, .data = data_, .norm_bias = bias_, \
		.u.norm.eps = 1e-5f                                                                  \
	}
#define NORM_PARTS(n_, s_, f_, plus_, parts_)                                                        \
	{                                                                                            \
		.kind = SL_OP_RMSNORM, .n = n_, .h = s_, .c = f_, .u.norm = { 1e-5f, plus_, parts_ } \
	}
#define PLUS(n_, h_, w_, c_, by_, plus_)                                                           \
	{                                                                                          \
		.kind = SL_OP_SCALE, .n = n_, .h = h_, .w = w_, .c = c_, .u.scale = { by_, plus_ } \
	}
#define LEAKY(n_, h_, w_, c_, data_, slope_)                                                                      \
	{                                                                                                         \
		.kind = SL_OP_LEAKYRELU, .n = n_, .h = h_, .w = w_, .c = c_, .data = data_, .u.leaky = { slope_ } \
	}
#define CONCAT(n_, h_, w_, c_, axis_)                                                           \
	{                                                                                       \
		.kind = SL_OP_CONCAT, .n = n_, .h = h_, .w = w_, .c = c_, .u.concat = { axis_ } \
	}
#define PERMUTE(n_, h_, w_, c_, outer_, b_, k_, to_h_, to_w_)                             \
	{                                                                                 \
		.kind = SL_OP_PERMUTE, .n = n_, .h = h_, .w = w_, .c = c_, .u.permute = { \
			outer_,                                                           \
			b_,                                                               \
			k_,                                                               \
			to_h_,                                                            \
			to_w_                                                             \
		}                                                                         \
	}
#define WINDOW(n_, slices_, h_, w_, c_, ...)                                                               \
	{                                                                                                  \
		.kind = SL_OP_WINDOW, .n = n_, .slices = slices_, .h = (slices_) * (h_), .w = w_, .c = c_, \
		.u.window = {                                                                              \
			__VA_ARGS__                                                                        \
		}                                                                                          \
	}
/* CUT, EDGE and REFLECT use first, before and step, MEAN uses window; other modes use none of them. */
#define RESAMPLE(n_, h_, w_, c_, axis_, size_, mode_, first_, before_, step_, window_)      \
	{                                                                                   \
		.kind = SL_OP_RESAMPLE, .n = n_, .h = h_, .w = w_, .c = c_, .u.resample = { \
			axis_,                                                              \
			size_,                                                              \
			SL_RESAMPLE_##mode_,                                                \
			first_,                                                             \
			before_,                                                            \
			step_,                                                              \
			window_                                                             \
		}                                                                           \
	}
#define GROUPNORM(n_, h_, w_, c_, groups_, bias_, data_)                                                        \
	{                                                                                                       \
		.kind = SL_OP_GROUPNORM, .n = n_, .h = h_, .w = w_, .c = c_, .data = data_, .norm_bias = bias_, \
		.u.groupnorm = {                                                                                \
			groups_,                                                                                \
			1e-5f                                                                                   \
		}                                                                                               \
	}
#define REPEAT(n_, h_, w_, c_, ndim_, d0_, d1_, d2_)                                                             \
	{                                                                                                        \
		.kind = SL_OP_REPEAT, .n = n_, .h = h_, .w = w_, .c = c_, .u.repeat = { ndim_, {d0_, d1_, d2_} } \
	}
/* all rows have s tokens */
#define ATTENTION_ROWS(n_, s_, f_, heads_, kv_, causal_, p_)                         \
	{                                                                            \
		.kind = SL_OP_ATTENTION, .n = n_, .h = s_, .c = f_, .u.attention = { \
			.heads = heads_,                                             \
			.kv = kv_,                                                   \
			.causal = causal_,                                           \
			.p = p_,                                                     \
			.each = s_                                                   \
		}                                                                    \
	}
#define ADD(n_, h_, w_, c_)                                           \
	{                                                             \
		.kind = SL_OP_ADD, .n = n_, .h = h_, .w = w_, .c = c_ \
	}
#define POOL(kind_, n_, h_, w_, c_, k_, s_, p_, data_)                                                             \
	{                                                                                                          \
		.kind = SL_OP_##kind_, .n = n_, .h = h_, .w = w_, .c = c_, .data = data_, .u.pool = { k_, s_, p_ } \
	}
#define MAXPOOL(n_, h_, w_, c_, k_, s_, p_) POOL(MAXPOOL, n_, h_, w_, c_, k_, s_, p_, DATA_PLAIN)
#define AVGPOOL(n_, h_, w_, c_, k_, s_, p_) POOL(AVGPOOL, n_, h_, w_, c_, k_, s_, p_, DATA_PLAIN)
#define LINEAR(n_, i_, o_, bias_)                                                            \
	{                                                                                    \
		.kind = SL_OP_LINEAR, .n = n_, .c = i_, .u.linear = { i_, o_, bias_, false } \
	}
#define LINEAR_OF(n_, s_, i_, o_, bias_, transposed_)                                                       \
	{                                                                                                   \
		.kind = SL_OP_LINEAR, .n = n_, .h = s_, .c = i_, .u.linear = { i_, o_, bias_, transposed_ } \
	}
#define DROPOUT(n_, h_, w_, c_, p_, eval_)                                                                    \
	{                                                                                                     \
		.kind = SL_OP_DROPOUT, .n = n_, .h = h_, .w = w_, .c = c_, .eval = eval_, .u.dropout = { p_ } \
	}
#define SCALE(n_, h_, w_, c_, by_)                                                          \
	{                                                                                   \
		.kind = SL_OP_SCALE, .n = n_, .h = h_, .w = w_, .c = c_, .u.scale = { by_ } \
	}
#define ATTENTION_SCALED(n_, s_, f_, heads_, kv_, rope_, factor_, low_, high_, old_) \
	{                                                                            \
		.kind = SL_OP_ATTENTION, .n = n_, .h = s_, .c = f_, .u.attention = { \
			heads_,                                                      \
			kv_,                                                         \
			true,                                                        \
			rope_,                                                       \
			0,                                                           \
			0,                                                           \
			factor_,                                                     \
			low_,                                                        \
			high_,                                                       \
			old_                                                         \
		}                                                                    \
	}
/* rotary positions of a part of a head, times a gain; scores with a cap; a window */
#define ATTENTION_BENT(n_, s_, f_, heads_, kv_, causal_, p_, part_, gain_, cap_, window_) \
	{                                                                                 \
		.kind = SL_OP_ATTENTION, .n = n_, .h = s_, .c = f_, .u.attention = {      \
			heads_,                                                           \
			kv_,                                                              \
			causal_,                                                          \
			.rope = (part_) ? 50.0f : 0,                                      \
			.p = p_,                                                          \
			.rope_part = part_,                                               \
			.rope_gain = gain_,                                               \
			.cap = cap_,                                                      \
			.window = window_                                                 \
		}                                                                         \
	}
#define ATTENTION(n_, s_, f_, heads_, kv_, causal_, rope_, p_, data_)                               \
	{                                                                                           \
		.kind = SL_OP_ATTENTION, .n = n_, .h = s_, .c = f_, .data = data_, .u.attention = { \
			heads_,                                                                     \
			kv_,                                                                        \
			causal_,                                                                    \
			rope_,                                                                      \
			p_                                                                          \
		}                                                                                   \
	}
#define EMBEDDING(n_, v_, f_, position_, first_)                                                        \
	{                                                                                               \
		.kind = SL_OP_EMBEDDING, .n = n_, .c = f_, .u.embedding = { v_, f_, position_, first_ } \
	}
#define LOOKUP(n_, ids_, v_, f_)                                                 \
	{                                                                        \
		.kind = SL_OP_LOOKUP, .n = n_, .c = ids_, .u.lookup = { v_, f_ } \
	}
#define SEGMENTS(n_, v_, f_, mark_)                                                                         \
	{                                                                                                   \
		.kind = SL_OP_EMBEDDING, .n = n_, .c = f_, .u.embedding = { v_, f_, false, 0, true, mark_ } \
	}
#define SELECT(n_, s_, f_)                                      \
	{                                                       \
		.kind = SL_OP_SELECT, .n = n_, .h = s_, .c = f_ \
	}
#define GATHER(n_, s_, f_)                                      \
	{                                                       \
		.kind = SL_OP_GATHER, .n = n_, .h = s_, .c = f_ \
	}
/* TRANSPOSE: rows of s tokens. TRANSPOSE_BACK: rows [s, f] to f tokens. */
#define TRANSPOSE(n_, s_, f_)                                                                      \
	{                                                                                          \
		.kind = SL_OP_TRANSPOSE, .n = n_, .h = s_, .c = f_, .u.transpose = {.tokens = s_ } \
	}
#define TRANSPOSE_BACK(n_, f_, s_)                                 \
	{                                                          \
		.kind = SL_OP_TRANSPOSE, .n = n_, .h = f_, .c = s_ \
	}
#define FLATTEN(n_, h_, w_, c_)                                           \
	{                                                                 \
		.kind = SL_OP_FLATTEN, .n = n_, .h = h_, .w = w_, .c = c_ \
	}
#define XENT(n_, k_, data_)                                         \
	{                                                           \
		.kind = SL_OP_XENT, .n = n_, .c = k_, .data = data_ \
	}
#define XENT_BY(n_, k_, data_, smoothing_, ignores_, ignored_)                 \
	{                                                                      \
		.kind = SL_OP_XENT, .n = n_, .c = k_, .data = data_, .rule = { \
			.smoothing = smoothing_,                               \
			.ignores = ignores_,                                   \
			.ignored = ignored_                                    \
		}                                                              \
	}
#define XENT_MIXED(n_, k_, data_, smoothing_)                                                                         \
	{                                                                                                             \
		.kind = SL_OP_XENT, .n = n_, .c = k_, .data = data_, .rule = {.smoothing = smoothing_}, .mixed = true \
	}

#define XENT_WEIGHTED(n_, k_, data_, smoothing_)                                                        \
	{                                                                                               \
		.kind = SL_OP_XENT, .n = n_, .c = k_, .data = data_, .rule = {.smoothing = smoothing_}, \
		.weighted = true, .no_gpu = true                                                        \
	}
/* Labels per pixel; ignored_ is a class, or -1 for none. */
#define XENT_PIXELS(n_, h_, w_, k_, data_, fn_, ignored_, weighted_)                                        \
	{                                                                                                   \
		.kind = SL_OP_XENT, .n = n_, .h = h_, .w = w_, .c = k_, .data = data_,                      \
		.rule = {.ignores = ignored_ >= 0, .ignored = ignored_, .dice = h_ * w_ / 2.0f},            \
		.u.xent = {.fn = fn_}, .weighted = weighted_, .no_gpu = weighted_ || fn_ != SL_XENT_ENTROPY \
	}
#define MSE_BY(n_, k_, fn_, weighted_)                                                                     \
	{                                                                                                  \
		.kind = SL_OP_MSE, .n = n_, .c = k_, .u.mse = {fn_}, .weighted = weighted_, .no_gpu = true \
	}

const struct op_case op_cases[] = {
	/* convolution, 1×1 */
	CONV(1, 1, 1, 1, 1, 1, 0, false), CONV(1, 1, 3, 17, 1, 1, 0, true), CONV(2, 5, 17, 33, 1, 1, 0, false),
	CONV(3, 7, 33, 1, 1, 1, 0, true), CONV(2, 7, 16, 24, 1, 2, 0, false), CONV(1, 4, 5, 6, 1, 1, 1, true),
	CONV(3, 3, 129, 31, 1, 1, 0, false),
	/* convolution, larger windows */
	CONV(1, 1, 3, 8, 3, 1, 1, false), CONV(1, 2, 1, 3, 3, 2, 1, true), CONV(2, 9, 3, 32, 3, 2, 1, false),
	CONV(2, 8, 3, 16, 3, 2, 1, false), CONV(1, 7, 17, 33, 3, 1, 1, true), CONV(2, 6, 5, 7, 3, 1, 0, false),
	CONV(3, 7, 3, 5, 3, 1, 2, true),
	/* 3×3 with many channels: 2×2 tiles across edges, a rest of lanes, several blocks and spans */
	CONV(2, 1, 32, 32, 3, 1, 1, true), CONV_HW(3, 5, 7, 33, 40, 3, 3, 1, 1, true),
	CONV_HW(2, 2, 3, 48, 65, 3, 3, 1, 1, false), CONV(5, 16, 32, 32, 3, 1, 1, false),
	CONV_HW(1, 3, 250, 32, 33, 3, 3, 1, 1, true), CONV(3, 4, 264, 256, 3, 1, 1, true),
	CONV(2, 9, 3, 17, 5, 1, 2, false), CONV(2, 9, 4, 3, 5, 2, 1, true), CONV(1, 13, 3, 17, 7, 2, 3, false),
	CONV(1, 7, 2, 1, 7, 1, 0, true), CONV_HW(2, 5, 11, 3, 9, 1, 3, 1, 0, false),
	CONV_HW(2, 11, 5, 9, 3, 5, 1, 2, 0, true), CONV_HW(1, 6, 4, 33, 2, 2, 2, 2, 0, false),
	CONV_HW(2, 3, 40, 6, 18, 3, 3, 1, 1, false), CONV(2, 10, 3, 20, 3, 3, 0, true), /* the learned insert: k = s */
	/* transposed convolution; the first of each pair restores an insert's shape */
	CONVT(2, 3, 3, 20, 3, 3, 3, 3, 0, 1, 1, true), CONVT(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, false),
	CONVT(3, 7, 5, 17, 33, 1, 1, 1, 0, 0, 0, true), CONVT(2, 4, 4, 16, 5, 1, 1, 3, 0, 2, 1, true),
	CONVT(2, 5, 3, 6, 7, 3, 3, 1, 1, 0, 0, false), CONVT(2, 5, 7, 9, 16, 3, 3, 2, 1, 1, 0, true),
	CONVT(1, 4, 4, 32, 32, 4, 4, 4, 0, 0, 0, true), CONVT(2, 3, 6, 5, 18, 2, 5, 2, 1, 0, 1, false),
	CONVT(1, 6, 2, 3, 1, 5, 1, 3, 0, 2, 0, true), CONVT(2, 2, 3, 33, 2, 7, 7, 2, 3, 1, 1, true),
	CONVT(4, 9, 9, 20, 32, 3, 3, 3, 0, 1, 1, true), CONVT(3, 14, 14, 64, 24, 2, 2, 2, 0, 0, 0, true),
	/* depthwise */
	DEPTHWISE(1, 1, 1, 3, 3, 1, 1, false), DEPTHWISE(1, 1, 1, 17, 1, 1, 0, true),
	DEPTHWISE(2, 7, 7, 33, 3, 1, 1, false), DEPTHWISE(2, 7, 7, 33, 3, 2, 1, true),
	DEPTHWISE(2, 8, 8, 16, 3, 2, 1, false), DEPTHWISE(1, 2, 2, 960, 3, 1, 1, false),
	DEPTHWISE(3, 5, 9, 3, 3, 1, 0, false), DEPTHWISE(2, 9, 5, 20, 3, 1, 2, false),
	DEPTHWISE(2, 9, 9, 17, 5, 1, 2, true), DEPTHWISE(2, 9, 9, 17, 5, 2, 2, false),
	DEPTHWISE(1, 11, 7, 31, 7, 2, 3, false), DEPTHWISE(1, 3, 12, 48, 3, 2, 0, false),
	DEPTHWISE(1, 33, 33, 2, 3, 2, 1, false),
	/* the layers of MobileNetV2 and ResNet9, scaled down, but large enough to be split into blocks */
	CONV(4, 32, 3, 32, 3, 2, 1, false), CONV(2, 32, 3, 32, 3, 1, 1, false), CONV(4, 32, 16, 24, 1, 1, 0, false),
	CONV(3, 14, 24, 144, 1, 1, 0, false), CONV(4, 17, 24, 144, 1, 1, 0, true), CONV(4, 7, 144, 32, 1, 1, 0, false),
	CONV(2, 4, 160, 320, 1, 1, 0, false), CONV(2, 2, 320, 640, 1, 1, 0, false),
	DEPTHWISE(4, 28, 28, 32, 3, 1, 1, false), DEPTHWISE(4, 28, 28, 96, 3, 2, 1, false),
	DEPTHWISE(2, 37, 70, 40, 3, 1, 1, true), DEPTHWISE(2, 63, 30, 40, 3, 2, 1, false),
	DEPTHWISE(2, 14, 14, 192, 3, 1, 1, false), DEPTHWISE(2, 14, 14, 200, 3, 2, 1, false),
	CONV(1, 16, 3, 64, 3, 1, 1, false), CONV(1, 16, 16, 64, 3, 1, 1, false), CONV(1, 8, 64, 64, 3, 1, 1, false),
	CONV(1, 4, 128, 96, 3, 1, 1, false),
	/* layers of ResNet-50 with small planes: weights larger than the cache with short rows;
	 * rows of a power of two */
	CONV(2, 6, 520, 512, 1, 2, 0, true), CONV(2, 6, 180, 180, 3, 2, 1, true), CONV(2, 7, 512, 96, 1, 1, 0, true),
	CONV(2, 7, 96, 512, 1, 1, 0, true),
	/* batch normalisation */
	BN(1, 1, 1, 3, NONE), BN(2, 1, 1, 17, NONE), BN(3, 1, 1, 33, RELU6), BN(1, 3, 3, 1, RELU),
	BN(2, 7, 7, 17, NONE), BN(2, 7, 7, 33, RELU), BN(2, 7, 7, 16, RELU6), BN(5, 2, 2, 130, RELU6),
	BN(8, 28, 28, 17, RELU6), BN(4, 32, 32, 32, NONE), BN(16, 4, 4, 1280, RELU6),
	BN_OF(4, 9, 9, 19, NONE, false, DATA_OFFSET), BN_OF(8, 16, 16, 32, RELU, false, DATA_OFFSET),
	BN_OF(1, 1, 1, 5, RELU6, true, DATA_PLAIN), BN_OF(3, 5, 5, 33, NONE, true, DATA_PLAIN),
	BN_OF(3, 5, 5, 33, RELU, true, DATA_PLAIN), BN_OF(2, 14, 14, 96, RELU6, true, DATA_PLAIN),
	/* activation, sum */
	ACT(1, 1, 1, 1, RELU, DATA_PLAIN), ACT(2, 5, 5, 17, RELU, DATA_PLAIN), ACT(2, 5, 5, 17, RELU6, DATA_PLAIN),
	ACT(3, 7, 7, 3, NONE, DATA_PLAIN), ACT(3, 7, 7, 33, RELU, DATA_TIES), ACT(3, 7, 7, 33, RELU6, DATA_TIES),
	ACT(4, 28, 28, 40, RELU6, DATA_PLAIN), ACT(5, 0, 0, 37, RELU, DATA_PLAIN), GELU(1, 0, 0, 1), GELU(5, 0, 0, 37),
	GELU(3, 7, 0, 33), GELU(2, 5, 5, 17), GELU(4, 16, 0, 768), GELU_TANH(1, 0, 0, 1), GELU_TANH(5, 0, 0, 37),
	GELU_TANH(4, 16, 0, 768), PLAIN(SILU, 1, 0, 0, 1), PLAIN(SILU, 3, 7, 0, 33), PLAIN(SILU, 4, 16, 0, 700),
	PLAIN(TANH, 1, 0, 0, 1), PLAIN(TANH, 5, 0, 0, 37), PLAIN(TANH, 4, 16, 0, 768), PLAIN(MUL, 1, 0, 0, 1),
	PLAIN(MUL, 3, 7, 0, 33), PLAIN(MUL, 2, 5, 5, 17), PLAIN(MUL, 4, 16, 0, 768), ADD(1, 1, 1, 1), ADD(2, 7, 7, 17),
	ADD(3, 14, 14, 24), ADD(4, 28, 28, 33), ADD(3, 0, 0, 129), PLAIN(SIGMOID, 1, 0, 0, 1),
	PLAIN(SIGMOID, 3, 7, 7, 33), PLAIN(SIGMOID, 4, 1, 1, 768), PLAIN(HARDSIGMOID, 1, 0, 0, 1),
	PLAIN(HARDSIGMOID, 3, 7, 7, 33), PLAIN(HARDSIGMOID, 4, 1, 1, 768), PLAIN(HARDSWISH, 1, 0, 0, 1),
	PLAIN(HARDSWISH, 3, 7, 7, 33), PLAIN(HARDSWISH, 4, 16, 16, 48), PLAIN(GATE, 1, 1, 1, 1),
	PLAIN(GATE, 3, 7, 5, 33), PLAIN(GATE, 2, 1, 9, 130), PLAIN(GATE, 4, 28, 28, 24), PLAIN(CONCAT, 1, 1, 1, 1),
	PLAIN(CONCAT, 3, 7, 5, 33), PLAIN(CONCAT, 2, 9, 1, 64), PLAIN(CONCAT, 4, 28, 28, 24),
	/* norms over the last dimension */
	NORM(LAYERNORM, 1, 0, 1, true, DATA_PLAIN), NORM(LAYERNORM, 3, 0, 2, true, DATA_PLAIN),
	NORM(LAYERNORM, 5, 0, 37, true, DATA_PLAIN), NORM(LAYERNORM, 3, 7, 33, false, DATA_PLAIN),
	NORM(LAYERNORM, 5, 26, 48, true, DATA_OFFSET), NORM(LAYERNORM, 2, 40, 768, true, DATA_PLAIN),
	NORM(LAYERNORM, 130, 0, 129, true, DATA_TIES), NORM(RMSNORM, 1, 0, 1, false, DATA_PLAIN),
	NORM(RMSNORM, 5, 0, 37, false, DATA_PLAIN), NORM(RMSNORM, 3, 7, 33, false, DATA_OFFSET),
	NORM(RMSNORM, 2, 40, 768, false, DATA_PLAIN), NORM(RMSNORM, 130, 0, 65, false, DATA_TIES),
	NORM_PARTS(3, 7, 33, true, 1), NORM_PARTS(2, 5, 36, false, 4), NORM_PARTS(9, 17, 256, true, 2),
	/* pooling */
	MAXPOOL(1, 1, 1, 3, 1, 1, 0), MAXPOOL(2, 8, 8, 17, 2, 2, 0), MAXPOOL(2, 9, 7, 33, 2, 2, 0),
	MAXPOOL(2, 9, 9, 16, 3, 2, 1), MAXPOOL(1, 7, 7, 3, 3, 1, 1), MAXPOOL(2, 6, 6, 5, 3, 2, 0),
	MAXPOOL(2, 4, 4, 130, 0, 1, 0), MAXPOOL(1, 7, 9, 4, 5, 2, 2), MAXPOOL(2, 20, 20, 24, 2, 2, 0),
	POOL(MAXPOOL, 2, 8, 8, 17, 2, 2, 0, DATA_TIES), POOL(MAXPOOL, 2, 9, 9, 33, 3, 2, 1, DATA_TIES),
	POOL(MAXPOOL, 2, 3, 5, 18, 0, 1, 0, DATA_TIES), AVGPOOL(1, 1, 1, 17, 0, 1, 0), AVGPOOL(3, 7, 7, 1280, 0, 1, 0),
	AVGPOOL(2, 2, 5, 33, 0, 1, 0), AVGPOOL(2, 90, 45, 70, 0, 1, 0), MAXPOOL(2, 90, 45, 70, 0, 1, 0),
	AVGPOOL(2, 8, 8, 17, 2, 2, 0), AVGPOOL(2, 9, 7, 3, 3, 2, 1), AVGPOOL(1, 7, 7, 16, 3, 1, 1),
	AVGPOOL(2, 10, 6, 5, 5, 1, 2), AVGPOOL(2, 20, 20, 24, 3, 2, 1),
	/* linear */
	LINEAR(1, 1, 1, true), LINEAR(1, 1280, 10, true), LINEAR(7, 17, 33, false), LINEAR(16, 33, 1, true),
	LINEAR(9, 3, 17, true), LINEAR(64, 128, 100, true), LINEAR(33, 512, 10, false), LINEAR(130, 203, 100, true),
	LINEAR(120, 1024, 40, true), LINEAR(130, 192, 96, true), LINEAR_OF(7, 0, 17, 33, false, true),
	LINEAR_OF(5, 0, 300, 270, true, true), LINEAR_OF(1, 0, 1, 1, true, true), LINEAR_OF(3, 5, 17, 33, true, false),
	LINEAR_OF(2, 128, 64, 48, false, false), LINEAR_OF(4, 1, 9, 1, true, true),
	LINEAR_OF(3, 7, 33, 17, false, true), LINEAR_OF(2, 150, 20, 300, true, true),
	/* dropout, flatten */
	DROPOUT(1, 0, 0, 1, 0.2f, false), DROPOUT(5, 0, 0, 1280, 0.2f, false), DROPOUT(3, 0, 0, 37, 0.0f, false),
	DROPOUT(3, 0, 0, 37, 0.2f, true), DROPOUT(2, 5, 5, 17, 0.5f, false), DROPOUT(4, 16, 16, 33, 0.9f, false),
	FLATTEN(1, 1, 1, 1), FLATTEN(3, 1, 1, 1280), FLATTEN(2, 3, 5, 17), FLATTEN(4, 16, 16, 33),
	LEAKY(1, 0, 0, 1, DATA_PLAIN, 0.01f), LEAKY(3, 5, 7, 33, DATA_PLAIN, 0.2f),
	LEAKY(4, 32, 32, 17, DATA_TIES, 0.01f), LEAKY(2, 3, 3, 40, DATA_PLAIN, -0.5f),
	LEAKY(3, 20, 0, 24, DATA_PLAIN, 1.5f), SCALE(1, 0, 0, 1, 0.125f), SCALE(128, 0, 0, 10, 0.125f),
	SCALE(3, 5, 7, 33, -1.7f), SCALE(4, 32, 32, 17, 3.0f),
	/* n rows that have s tokens on average */
	ATTENTION(1, 1, 1, 1, 0, false, 0, 0, DATA_PLAIN), ATTENTION(3, 1, 6, 3, 0, true, 0, 0, DATA_PLAIN),
	ATTENTION(3, 5, 8, 2, 0, false, 0, 0, DATA_PLAIN), ATTENTION(4, 6, 12, 3, 0, true, 0, 0, DATA_PLAIN),
	ATTENTION(3, 7, 24, 6, 2, false, 0, 0, DATA_PLAIN), ATTENTION(2, 9, 16, 4, 1, true, 10000, 0, DATA_PLAIN),
	ATTENTION(3, 5, 12, 2, 0, false, 100, 0, DATA_PLAIN), ATTENTION(3, 7, 16, 2, 0, false, 0, 0.25f, DATA_PLAIN),
	ATTENTION(2, 9, 24, 4, 2, true, 50, 0.5f, DATA_PLAIN), ATTENTION(5, 21, 128, 2, 0, false, 0, 0.1f, DATA_PLAIN),
	ATTENTION(2, 70, 66, 3, 0, true, 0, 0.1f, DATA_PLAIN), ATTENTION(2, 150, 64, 1, 0, false, 0, 0, DATA_PLAIN),
	ATTENTION(2, 130, 80, 4, 2, true, 10000, 0.2f, DATA_PLAIN), ATTENTION_SCALED(2, 9, 16, 2, 1, 100, 8, 0, 0, 0),
	ATTENTION_SCALED(2, 20, 32, 2, 1, 500, 4, 0.5f, 2, 40), ATTENTION(3, 11, 260, 2, 0, false, 0, 0, DATA_PLAIN),
	ATTENTION(3, 11, 20, 4, 0, true, 0, 0, DATA_TIES), ATTENTION_BENT(2, 9, 32, 2, 1, true, 0, 12, 1.2f, 0, 0),
	ATTENTION_BENT(2, 70, 20, 2, 0, false, 0.2f, 4, 0, 0, 0),
	ATTENTION_BENT(3, 9, 16, 2, 1, true, 0, 0, 0, 0.7f, 0),
	ATTENTION_BENT(2, 70, 24, 2, 0, false, 0.25f, 0, 0, 0.5f, 0),
	ATTENTION_BENT(2, 70, 24, 2, 0, true, 0, 8, 0, 0, 5), ATTENTION_BENT(3, 9, 16, 2, 0, false, 0.2f, 8, 0, 0, 3),
	ATTENTION_BENT(2, 150, 32, 2, 1, false, 0, 0, 0, 0, 40),
	ATTENTION_BENT(2, 150, 16, 1, 0, true, 0.1f, 16, 0.9f, 1.5f, 65), EMBEDDING(1, 1, 1, false, 0),
	EMBEDDING(9, 4, 7, false, 0), EMBEDDING(130, 50, 33, false, 0), EMBEDDING(64, 200, 48, false, 0),
	EMBEDDING(1, 3, 1, true, 2), EMBEDDING(10, 5, 17, true, 2), EMBEDDING(100, 4, 48, true, 0), LOOKUP(1, 1, 1, 1),
	LOOKUP(9, 3, 4, 7), LOOKUP(70, 26, 50, 16), LOOKUP(33, 2, 900, 130), SEGMENTS(1, 1, 3, 0),
	SEGMENTS(20, 2, 17, 1), SEGMENTS(100, 3, 48, 2), SELECT(1, 1, 1), SELECT(1, 9, 7), SELECT(5, 2, 33),
	SELECT(70, 11, 48), GATHER(1, 1, 1), GATHER(1, 9, 7), GATHER(5, 2, 33), GATHER(70, 11, 48), TRANSPOSE(1, 1, 1),
	TRANSPOSE(3, 17, 5), TRANSPOSE(2, 33, 70), TRANSPOSE(5, 64, 128), TRANSPOSE_BACK(1, 1, 1),
	TRANSPOSE_BACK(3, 5, 17), TRANSPOSE_BACK(2, 130, 31), TRANSPOSE_BACK(5, 96, 32), PLAIN(ELU, 1, 0, 0, 1),
	PLAIN(ELU, 3, 7, 7, 33), PLAIN(ELU, 4, 16, 0, 768), PLAIN(SOFTPLUS, 1, 0, 0, 1), PLAIN(SOFTPLUS, 3, 7, 7, 33),
	PLAIN(SOFTPLUS, 4, 16, 0, 768), MATH(1, 0, 0, 1, EXP), MATH(3, 7, 7, 33, EXP), MATH(1, 0, 0, 1, LOG),
	MATH(3, 7, 7, 33, LOG), MATH(1, 0, 0, 1, SQRT), MATH(3, 7, 7, 33, SQRT), MATH(1, 0, 0, 1, RECIPROCAL),
	MATH(3, 7, 7, 33, RECIPROCAL), PLUS(3, 5, 7, 33, -1.7f, 0.3f), PLUS(1, 0, 0, 1, 1, 2),
	PLUS(4, 32, 32, 17, 1, -3), PLAIN(GATE, 3, 7, 0, 33), PLAIN(GATE, 2, 70, 0, 64), CONCAT(3, 0, 0, 17, 1),
	CONCAT(2, 5, 0, 8, 1), CONCAT(3, 4, 6, 5, 1), CONCAT(2, 4, 6, 16, 2), CONCAT(1, 3, 0, 7, 2),
	PERMUTE(2, 3, 4, 5, 1, 1, 1, 0, 0), PERMUTE(3, 6, 5, 4, 1, 30, 4, 0, 0), PERMUTE(2, 8, 8, 6, 2, 4, 8, 8, 8),
	PERMUTE(1, 70, 0, 130, 1, 70, 130, 130, 0), PERMUTE(4, 16, 16, 32, 4, 4, 4, 64, 0),
	PERMUTE(2, 0, 0, 60, 3, 5, 2, 4, 3), RESAMPLE(2, 5, 4, 3, 1, 3, CUT, 1, 0, 1, 1),
	RESAMPLE(2, 5, 4, 8, 2, 7, CUT, 0, 2, 1, 1), RESAMPLE(3, 9, 9, 5, 1, 4, CUT, 1, 0, 2, 1),
	RESAMPLE(2, 0, 0, 37, 1, 20, CUT, 3, 0, 1, 1), RESAMPLE(2, 3, 4, 700, 3, 600, CUT, 50, 0, 1, 1),
	RESAMPLE(2, 9, 70, 2, 2, 40, CUT, 7, 0, 1, 1), RESAMPLE(5, 4, 3, 6, 3, 3, CUT, 0, 0, 2, 1),
	RESAMPLE(2, 6, 0, 8, 2, 12, CUT, 0, 9, 1, 1), RESAMPLE(2, 5, 6, 4, 1, 9, REFLECT, 0, 2, 1, 1),
	RESAMPLE(1, 4, 4, 3, 2, 10, REFLECT, 0, 3, 1, 1), RESAMPLE(2, 5, 6, 4, 2, 9, EDGE, 0, 2, 1, 1),
	RESAMPLE(2, 5, 6, 4, 1, 10, NEAREST, 0, 0, 1, 1), RESAMPLE(2, 7, 6, 9, 1, 4, NEAREST, 0, 0, 1, 1),
	RESAMPLE(2, 5, 6, 4, 1, 10, LINEAR, 0, 0, 1, 1), RESAMPLE(3, 9, 6, 20, 2, 4, LINEAR, 0, 0, 1, 1),
	RESAMPLE(2, 1, 3, 7, 1, 5, LINEAR, 0, 0, 1, 1), RESAMPLE(2, 5, 6, 4, 2, 13, ALIGNED, 0, 0, 1, 1),
	RESAMPLE(2, 5, 6, 4, 1, 1, ALIGNED, 0, 0, 1, 1), RESAMPLE(2, 7, 7, 300, 1, 3, AREA, 0, 0, 1, 1),
	RESAMPLE(2, 3, 5, 4, 1, 7, AREA, 0, 0, 1, 1), RESAMPLE(2, 9, 8, 5, 1, 4, MEAN, 0, 1, 2, 3),
	RESAMPLE(2, 6, 130, 3, 2, 65, MEAN, 0, 0, 2, 2), RESAMPLE(2, 4, 3, 2, 1, 6, MEAN, 0, 0, 3, 2),
	WINDOW(2, 5, 3, 4, 3, 3, 1, 1, 1, 0), WINDOW(1, 7, 2, 5, 17, 3, 2, 1, 1, 0),
	WINDOW(3, 6, 1, 3, 32, 2, 2, 0, 1, 0), WINDOW(2, 9, 2, 2, 5, 3, 1, 2, 2, 0),
	WINDOW(1, 1, 4, 4, 4, 1, 1, 0, 1, 0), WINDOW(2, 3, 3, 2, 8, 2, 2, 0, 1, 6),
	WINDOW(1, 4, 2, 3, 9, 3, 2, 1, 1, 8), WINDOW(2, 5, 1, 2, 12, 3, 1, 1, 1, 5),
	WINDOW(1, 3, 2, 2, 4, 2, 3, 1, 1, 6), GROUPNORM(2, 3, 3, 4, 2, true, DATA_PLAIN),
	GROUPNORM(3, 7, 5, 33, 3, true, DATA_PLAIN), GROUPNORM(2, 9, 9, 16, 16, false, DATA_PLAIN),
	GROUPNORM(5, 8, 0, 24, 1, true, DATA_PLAIN), GROUPNORM(2, 28, 28, 64, 32, true, DATA_OFFSET),
	GROUPNORM(4, 6, 6, 130, 1, false, DATA_TIES), GROUPNORM(2, 90, 60, 64, 16, true, DATA_OFFSET),
	GROUPNORM(1, 701, 23, 33, 3, false, DATA_PLAIN), REPEAT(1, 1, 1, 1, 1, 1, 0, 0), REPEAT(3, 4, 4, 5, 1, 7, 0, 0),
	REPEAT(5, 0, 0, 9, 2, 6, 12, 0), REPEAT(4, 3, 0, 8, 3, 5, 7, 16), REPEAT(33, 0, 0, 3, 2, 65, 192, 0),
	ATTENTION_ROWS(1, 1, 1, 1, 0, false, 0), ATTENTION_ROWS(3, 5, 8, 2, 0, false, 0),
	ATTENTION_ROWS(2, 9, 24, 4, 2, true, 0.25f), ATTENTION_ROWS(2, 65, 64, 4, 0, false, 0),
	ATTENTION_ROWS(1, 15, 20, 1, 0, false, 0), ATTENTION_ROWS(1, 16, 80, 1, 0, true, 0),
	ATTENTION_ROWS(2, 17, 128, 1, 0, false, 0.1f), ATTENTION_ROWS(1, 63, 64, 1, 0, false, 0),
	ATTENTION_ROWS(1, 64, 40, 2, 1, true, 0.2f),
	/* cross-entropy */
	XENT(1, 1, DATA_PLAIN), XENT(1, 10, DATA_PLAIN), XENT(5, 2, DATA_PLAIN), XENT(33, 10, DATA_TIES),
	XENT(7, 100, DATA_LARGE), XENT(4, 1000, DATA_PLAIN), XENT(128, 17, DATA_TIES), XENT(257, 10, DATA_PLAIN),
	XENT_BY(5, 2, DATA_PLAIN, 0.1f, false, 0), XENT_BY(33, 10, DATA_TIES, 0.5f, false, 0),
	XENT_BY(7, 100, DATA_LARGE, 0.1f, false, 0), XENT_BY(3, 1000, DATA_PLAIN, 1.0f, false, 0),
	XENT_BY(7, 10, DATA_PLAIN, 0, true, -100), XENT_BY(33, 10, DATA_TIES, 0.1f, true, 3),
	XENT_BY(1, 10, DATA_PLAIN, 0.1f, true, 0), XENT_BY(257, 17, DATA_PLAIN, 0.2f, true, -1),
	XENT_MIXED(1, 10, DATA_PLAIN, 0), XENT_MIXED(33, 2, DATA_TIES, 0), XENT_MIXED(7, 100, DATA_LARGE, 0.1f),
	XENT_MIXED(257, 17, DATA_PLAIN, 0.3f), PLAIN(MSE, 1, 0, 0, 1), PLAIN(MSE, 5, 0, 0, 3), PLAIN(MSE, 130, 0, 0, 1),
	PLAIN(MSE, 33, 0, 0, 70), MSE_BY(5, 3, SL_MSE_L1, false), MSE_BY(33, 7, SL_MSE_HUBER, false),
	MSE_BY(130, 1, SL_MSE_HUBER, false), MSE_BY(9, 14, SL_MSE_BCE, false), MSE_BY(33, 5, SL_MSE_BCE, true),
	XENT_WEIGHTED(5, 2, DATA_PLAIN, 0), XENT_WEIGHTED(33, 10, DATA_TIES, 0.1f),
	XENT_WEIGHTED(7, 100, DATA_LARGE, 0), XENT_PIXELS(2, 5, 3, 4, DATA_PLAIN, SL_XENT_ENTROPY, -1, false),
	XENT_PIXELS(3, 7, 9, 3, DATA_TIES, SL_XENT_ENTROPY, 1, true),
	XENT_PIXELS(1, 1, 1, 1, DATA_PLAIN, SL_XENT_DICE, -1, false),
	XENT_PIXELS(3, 7, 9, 4, DATA_PLAIN, SL_XENT_DICE, -1, false),
	XENT_PIXELS(2, 16, 5, 33, DATA_LARGE, SL_XENT_DICE, 2, false),
	XENT_PIXELS(3, 6, 5, 2, DATA_TIES, SL_XENT_BOTH, 1, true),
	XENT_PIXELS(5, 4, 4, 3, DATA_PLAIN, SL_XENT_BOTH, 0, false),
	XENT_PIXELS(2, 301, 150, 7, DATA_PLAIN, SL_XENT_BOTH, 2, false),
	XENT_PIXELS(1, 700, 401, 2, DATA_PLAIN, SL_XENT_DICE, -1, false),
	XENT_PIXELS(3, 7, 9, 4, DATA_PLAIN, SL_XENT_FOREGROUND, 2, false),
	XENT_PIXELS(2, 301, 150, 3, DATA_PLAIN, SL_XENT_FOREGROUND_BOTH, -1, true),
	/* more images than tasks, so that a task continues in the next image; small inputs with large outputs */
	DEPTHWISE(130, 4, 3, 5, 3, 1, 1, true), DEPTHWISE(130, 5, 4, 17, 3, 2, 1, false),
	DEPTHWISE(130, 3, 3, 3, 5, 1, 2, true), CONV(130, 3, 2, 5, 3, 1, 1, true), CONV(70, 5, 3, 4, 3, 2, 1, false),
	CONVT(3, 1, 1, 1, 33, 1, 1, 1, 0, 0, 0, true),
	/* a window as large as the image, with padding */
	AVGPOOL(2, 3, 3, 5, 3, 1, 1),
	/* groups of several channels, dilated windows, and both */
	GROUPED(1, 1, 1, 4, 2, 1, 1, 1, 0, 2, 1, true), GROUPED(2, 5, 6, 6, 9, 3, 3, 1, 1, 3, 1, false),
	GROUPED(3, 7, 5, 32, 32, 3, 3, 2, 1, 8, 1, true), GROUPED(2, 9, 9, 34, 68, 3, 3, 1, 1, 2, 1, false),
	GROUPED(5, 4, 4, 4, 12, 3, 3, 1, 1, 4, 1, true), /* several outputs per channel */
	GROUPED(2, 6, 5, 12, 4, 1, 1, 1, 0, 4, 1, true), GROUPED(2, 8, 7, 40, 80, 1, 1, 2, 0, 2, 1, false),
	GROUPED(1, 24, 23, 8, 16, 5, 3, 1, 2, 4, 1, false), /* more pixels than a block has */
	GROUPED(2, 9, 8, 3, 5, 3, 3, 1, 2, 1, 2, true), GROUPED(1, 11, 12, 33, 32, 3, 3, 1, 3, 1, 3, false),
	GROUPED(2, 10, 9, 5, 4, 2, 3, 2, 0, 1, 4, true),
	GROUPED(2, 3, 3, 32, 32, 3, 3, 1, 4, 1, 4, false), /* most taps are beyond the edge */
	GROUPED(3, 8, 9, 12, 8, 3, 3, 2, 2, 4, 2, true), GROUPED(2, 7, 7, 9, 9, 3, 3, 1, 2, 9, 2, true), /* depthwise */
	GROUPED(2, 9, 7, 16, 16, 3, 3, 2, 1, 16, 3, false), GROUPED(2, 20, 9, 17, 17, 18, 3, 1, 4, 17, 1, true),
	GROUPED(2, 31, 8, 20, 20, 7, 7, 1, 3, 20, 1, true), GROUPED(1, 60, 9, 5, 5, 5, 5, 3, 9, 5, 1, false),
	GROUPED(2, 2, 3, 5, 5, 2, 3, 100, 120, 5, 2, true), /* windows far beyond the edge */
	GROUPED(2, 2, 3, 3, 3, 2, 2, 1, 46, 3, 90, false),
	GROUPED(17, 5, 5, 8, 8, 3, 3, 1, 1, 2, 1, true), /* more images than spans */
	/* bundles of narrow groups: complete and not, rows longer than a tile, several widths */
	GROUPED(2, 14, 15, 104, 104, 3, 3, 1, 1, 13, 1, false), GROUPED(1, 15, 29, 24, 24, 3, 3, 2, 1, 3, 1, true),
	GROUPED(1, 7, 31, 12, 18, 3, 3, 1, 1, 6, 1, false), GROUPED(1, 9, 17, 20, 28, 3, 3, 2, 1, 4, 1, true),
	GROUPED(1, 5, 8, 22, 22, 3, 3, 1, 1, 11, 1, false), GROUPED(2, 7, 7, 48, 24, 3, 3, 1, 1, 6, 1, false),
	/* transposed, with groups: several channels each, wide ones, several outputs or inputs per channel, depthwise
	 */
	CONVT_GROUPED(2, 4, 5, 6, 9, 3, 3, 2, 1, 1, 0, 3, true),
	CONVT_GROUPED(3, 5, 4, 64, 32, 2, 2, 2, 0, 0, 0, 2, true),
	CONVT_GROUPED(2, 3, 3, 4, 12, 4, 4, 2, 1, 0, 0, 4, false),
	CONVT_GROUPED(1, 6, 5, 12, 4, 3, 5, 1, 1, 0, 0, 4, true),
	CONVT_GROUPED(2, 5, 6, 17, 17, 2, 2, 2, 0, 0, 0, 17, true),
	CONVT_GROUPED(3, 4, 7, 8, 8, 3, 3, 2, 1, 1, 1, 8, false),
	CONVT_GROUPED(2, 7, 7, 33, 33, 3, 3, 1, 1, 0, 0, 33, true),
	CONVT_GROUPED(2, 1, 9, 16, 16, 1, 4, 2, 0, 0, 1, 16, true),
	CONVT_GROUPED(1, 2, 3, 5, 5, 3, 3, 40, 0, 7, 0, 5, false), /* taps far apart */
};
const int op_case_count = sizeof(op_cases) / sizeof(op_cases[0]);

static const char *const act_names[SL_ACT_COUNT] = {"none", "relu", "relu6"};
static const char *const data_names[] = {"", ", offset 30", ", ties", ", large"};

const char *op_case_text(const struct op_case *c, char out[OP_CASE_TEXT])
{
	char attr[128] = "", shape[40];

	switch (c->kind) {
	case SL_OP_CONV2D:
		snprintf(attr, sizeof(attr), " -> %d, %dx%d s%d p%d g%d d%d%s", c->u.conv.out_c, c->u.conv.kh,
			 c->u.conv.kw, c->u.conv.stride, c->u.conv.pad, c->u.conv.groups, c->u.conv.dilation,
			 c->u.conv.bias ? " bias" : "");
		break;
	case SL_OP_CONVT2D:
		snprintf(attr, sizeof(attr), " -> %d, %dx%d s%d p%d op%dx%d g%d%s", c->u.convt.out_c, c->u.convt.kh,
			 c->u.convt.kw, c->u.convt.stride, c->u.convt.pad, c->u.convt.out_pad_h, c->u.convt.out_pad_w,
			 c->u.convt.groups, c->u.convt.bias ? " bias" : "");
		break;
	case SL_OP_BATCHNORM:
		snprintf(attr, sizeof(attr), " %s", act_names[c->u.bn.act]);
		break;
	case SL_OP_ACT:
		snprintf(attr, sizeof(attr), " %s", act_names[c->u.act]);
		break;
	case SL_OP_MAXPOOL:
	case SL_OP_AVGPOOL:
		snprintf(attr, sizeof(attr), ", k%d s%d p%d", c->u.pool.k, c->u.pool.stride, c->u.pool.pad);
		break;
	case SL_OP_LINEAR:
		snprintf(attr, sizeof(attr), " -> %d%s%s", c->u.linear.out_f,
			 c->u.linear.transposed ? " transposed" : "", c->u.linear.bias ? " bias" : "");
		break;
	case SL_OP_MATH:
		snprintf(attr, sizeof(attr), " %d", c->u.math.fn);
		break;
	case SL_OP_GELU:
		snprintf(attr, sizeof(attr), "%s", c->u.gelu.tanh ? " tanh" : "");
		break;
	case SL_OP_RMSNORM:
		snprintf(attr, sizeof(attr), " %d parts%s", c->u.norm.parts, c->u.norm.plus ? " plus" : "");
		break;
	case SL_OP_LAYERNORM:
		snprintf(attr, sizeof(attr), "%s", c->norm_bias ? " bias" : "");
		break;
	case SL_OP_DROPOUT:
		snprintf(attr, sizeof(attr), " p %g", (double)c->u.dropout.p);
		break;
	case SL_OP_ATTENTION:
		snprintf(attr, sizeof(attr), ", heads %d:%d%s rope %g p %g part %d cap %g window %d",
			 c->u.attention.heads, sl_attention_kv(&c->u.attention), c->u.attention.causal ? " causal" : "",
			 (double)c->u.attention.rope, (double)c->u.attention.p, c->u.attention.rope_part,
			 (double)c->u.attention.cap, c->u.attention.window);
		break;
	case SL_OP_EMBEDDING:
		snprintf(attr, sizeof(attr), " of %d%s", c->u.embedding.rows,
			 c->u.embedding.position  ? " places"
			 : c->u.embedding.segment ? " segments"
						  : "");
		break;
	case SL_OP_LOOKUP:
		snprintf(attr, sizeof(attr), " in %d rows of %d", c->u.lookup.rows, c->u.lookup.features);
		break;
	case SL_OP_LEAKYRELU:
		snprintf(attr, sizeof(attr), " slope %g", (double)c->u.leaky.slope);
		break;
	case SL_OP_SCALE:
		snprintf(attr, sizeof(attr), " by %g plus %g", (double)c->u.scale.by, (double)c->u.scale.plus);
		break;
	case SL_OP_RESAMPLE:
		snprintf(attr, sizeof(attr), " axis %d to %d, mode %d", c->u.resample.axis, c->u.resample.size,
			 c->u.resample.mode);
		break;
	case SL_OP_WINDOW:
		snprintf(attr, sizeof(attr), " of %d slices, k %d s %d p %d d %d back %d", c->slices, c->u.window.k,
			 c->u.window.stride, c->u.window.pad, c->u.window.dilation, c->u.window.back);
		break;
	case SL_OP_GROUPNORM:
		snprintf(attr, sizeof(attr), " groups %d%s", c->u.groupnorm.groups, c->norm_bias ? " bias" : "");
		break;
	case SL_OP_MSE:
		snprintf(attr, sizeof(attr), " fn %d%s", c->u.mse.fn, c->weighted ? ", weighted" : "");
		break;
	case SL_OP_XENT:
		if (c->u.xent.fn)
			snprintf(attr, sizeof(attr), ", fn %d", c->u.xent.fn);
		if (c->rule.smoothing > 0)
			snprintf(attr, sizeof(attr), ", smoothing %g", (double)c->rule.smoothing);
		if (c->weighted)
			snprintf(attr + strlen(attr), sizeof(attr) - strlen(attr), ", weighted");
		if (c->mixed)
			snprintf(attr + strlen(attr), sizeof(attr) - strlen(attr), ", mixed");
		if (c->rule.ignores)
			snprintf(attr + strlen(attr), sizeof(attr) - strlen(attr), ", ignores %d", c->rule.ignored);
		break;
	default:
		break;
	}
	if (c->h && !c->w)
		snprintf(shape, sizeof(shape), "%dx%dx%d", c->n, c->h, c->c);
	else if (c->h)
		snprintf(shape, sizeof(shape), "%dx%dx%dx%d", c->n, c->h, c->w, c->c);
	else
		snprintf(shape, sizeof(shape), "%dx%d", c->n, c->c);
	snprintf(out, OP_CASE_TEXT, "%s %s%s%s%s", sl_op_kind_name(c->kind), shape, attr, c->eval ? ", eval" : "",
		 data_names[c->data]);
	return out;
}

static int between(const struct sl_rng_key *key, uint32_t *element, int low, int high)
{
	return low + (int)sl_rng_below(sl_rng_u32(key, (*element)++), (uint32_t)(high - low + 1));
}

struct op_case op_case_random(uint64_t seed, uint32_t index)
{
	const struct sl_rng_key key = {.seed = seed, .step = index, .chunk = 0xffff, .tensor = SL_RNG_TEST};
	static const int kernels[] = {1, 2, 3, 3, 5, 7};
	static const enum sl_op_kind kinds[] = {SL_OP_CONV2D,  SL_OP_CONV2D,  SL_OP_CONV2D, SL_OP_BATCHNORM,
						SL_OP_MAXPOOL, SL_OP_AVGPOOL, SL_OP_CONVT2D};
	uint32_t e = 0;
	struct op_case c = {.kind = kinds[between(&key, &e, 0, 6)]};
	int kh = kernels[between(&key, &e, 0, 5)], kw = between(&key, &e, 0, 3) ? kh : kernels[between(&key, &e, 0, 5)];
	int stride = between(&key, &e, 1, 3), out_c = between(&key, &e, 1, 40), flags = between(&key, &e, 0, 15);
	int pad, most_pad;

	if (c.kind != SL_OP_CONV2D && c.kind != SL_OP_CONVT2D)
		kw = kh;
	most_pad = c.kind == SL_OP_CONV2D ? 3 : c.kind == SL_OP_CONVT2D ? ((kh < kw ? kh : kw) - 1) / 2 : kh / 2;
	pad = between(&key, &e, 0, most_pad);
	c.n = between(&key, &e, 1, 5);
	c.c = between(&key, &e, 1, 50);
	c.h = kh - 2 * pad > 0 ? between(&key, &e, kh - 2 * pad, kh - 2 * pad + 8) : between(&key, &e, 1, 9);
	c.w = kw - 2 * pad > 0 ? between(&key, &e, kw - 2 * pad, kw - 2 * pad + 8) : between(&key, &e, 1, 9);
	if (c.kind == SL_OP_CONV2D && flags & 1)
		c.u.conv = (struct sl_conv_attr){c.c, c.c, kh, kw, stride, pad, c.c, flags & 2, 1};
	else if (c.kind == SL_OP_CONV2D)
		c.u.conv = (struct sl_conv_attr){c.c, out_c, kh, kw, stride, pad, 1, flags & 2, 1};
	else if (c.kind == SL_OP_CONVT2D)
		c.u.convt = (struct sl_convt_attr){c.c,
						   out_c,
						   kh,
						   kw,
						   stride,
						   pad,
						   between(&key, &e, 0, stride - 1),
						   between(&key, &e, 0, stride - 1),
						   flags & 2,
						   1};
	else if (c.kind == SL_OP_BATCHNORM)
		c.u.bn = (struct sl_bn_attr){c.c, 1e-5f, 0.1f, (enum sl_act)(flags % SL_ACT_COUNT)};
	else
		c.u.pool = (struct sl_pool_attr){flags ? kh : 0, stride, flags ? pad : 0};
	if (c.kind == SL_OP_CONVT2D && flags & 4) {
		struct sl_convt_attr *a = &c.u.convt;

		a->groups = flags & 1 ? c.c : between(&key, &e, 1, 5);
		a->in_c = c.c = flags & 1 ? c.c : a->groups * between(&key, &e, 1, 9);
		a->out_c = flags & 1 ? c.c : a->groups * between(&key, &e, 1, 20);
	}
	c.eval = c.kind == SL_OP_BATCHNORM && !(flags & 12);
	if (c.kind == SL_OP_CONV2D && flags & 4) { /* groups and dilation, for dense and for depthwise windows */
		struct sl_conv_attr *a = &c.u.conv;

		a->dilation = between(&key, &e, 1, 3);
		c.h += (kh - 1) * (a->dilation - 1);
		c.w += (kw - 1) * (a->dilation - 1);
		if (a->groups == 1) {
			a->groups = between(&key, &e, 1, 5);
			a->in_c = c.c = a->groups * between(&key, &e, 1, 9);
			a->out_c = a->groups * between(&key, &e, 1, 20);
		}
	}
	return c;
}

/* Checks the shapes of one token first; then sets those of S tokens, because the rig counts rows. */
static enum sl_err attention_op(const struct op_case *c, int64_t rows, struct sl_op *op, struct sl_fail *fail)
{
	const int64_t each = c->c / c->u.attention.heads * sl_attention_kv(&c->u.attention);
	enum sl_err err;

	op->u.attention = c->u.attention;
	if (c->u.attention.each) {
		op->most = c->h;
		op->in_shape[1] = op->in_shape[2] = sl_shape3(rows, c->h, each);
		return sl_op_infer_shape(op, fail);
	}
	op->most = 2 * c->h;
	op->in_shape[0] = sl_shape2(1, c->c);
	op->in_shape[1] = op->in_shape[2] = sl_shape2(1, each);
	err = sl_op_infer_shape(op, fail);
	op->in_shape[0] = op->out_shape = sl_shape3(rows, c->h, c->c);
	op->in_shape[1] = op->in_shape[2] = sl_shape3(rows, c->h, each);
	return err;
}

enum sl_err op_case_op(const struct op_case *c, int64_t rows, struct sl_op *op, struct sl_fail *fail)
{
	*op = (struct sl_op){.kind = c->kind, .name = "case", .stream = 17, .n_in = sl_op_row(c->kind).n_in};
	if (sl_op_is_loss(c->kind))
		op->n_in = 1; /* labels and targets are not inputs of the op */
	for (int i = 0; i < op->n_in; i++) {
		op->in[i] = i;
		op->in_shape[i] = !c->h   ? sl_shape2(rows, c->c)
				  : !c->w ? sl_shape3(rows, c->h, c->c)
					  : sl_shape4(rows, c->h, c->w, c->c);
	}
	for (int i = 1; c->kind == SL_OP_GATE && i < op->in_shape[1].ndim - 1; i++)
		op->in_shape[1].dim[i] = 1;
	if (c->kind == SL_OP_CONCAT) { /* the second input has another size than the first */
		int64_t *size = &op->in_shape[1].dim[c->u.concat.axis ? c->u.concat.axis : op->in_shape[1].ndim - 1];

		*size = *size % 4 ? *size / 2 + 1 : 2 * *size;
		op->u.concat = c->u.concat;
	}
	op->out = op->n_in;
	switch (c->kind) {
	case SL_OP_CONV2D:
		op->u.conv = c->u.conv;
		op->n_param = c->u.conv.bias ? 2 : 1;
		break;
	case SL_OP_CONVT2D:
		op->u.convt = c->u.convt;
		op->n_param = c->u.convt.bias ? 2 : 1;
		break;
	case SL_OP_BATCHNORM:
		op->u.bn = c->u.bn;
		op->n_param = 4;
		break;
	case SL_OP_ACT:
		op->u.act = c->u.act;
		break;
	case SL_OP_MAXPOOL:
	case SL_OP_AVGPOOL:
		op->u.pool = c->u.pool;
		break;
	case SL_OP_LINEAR:
		op->u.linear = c->u.linear;
		op->n_param = c->u.linear.bias ? 2 : 1;
		break;
	case SL_OP_DROPOUT:
		op->u.dropout = c->u.dropout;
		break;
	case SL_OP_EMBEDDING:
		op->in_shape[0] = sl_shape1(rows);
		op->u.embedding = c->u.embedding;
		op->n_param = 1;
		break;
	case SL_OP_LOOKUP:
		op->u.lookup = c->u.lookup;
		op->n_param = 1;
		break;
	case SL_OP_LEAKYRELU:
		op->u.leaky = c->u.leaky;
		break;
	case SL_OP_SCALE:
		op->u.scale = c->u.scale;
		break;
	case SL_OP_GELU:
		op->u.gelu = c->u.gelu;
		break;
	case SL_OP_MATH:
		op->u.math = c->u.math;
		break;
	case SL_OP_LAYERNORM:
	case SL_OP_RMSNORM:
		op->u.norm = c->u.norm;
		op->n_param = c->norm_bias ? 2 : 1;
		break;
	case SL_OP_XENT:
		op->u.xent = (struct sl_xent_attr){.classes = c->c, .fn = c->u.xent.fn};
		break;
	case SL_OP_MSE:
		op->u.mse = c->u.mse;
		break;
	case SL_OP_PERMUTE:
		op->u.permute = c->u.permute;
		break;
	case SL_OP_RESAMPLE:
		op->u.resample = c->u.resample;
		break;
	case SL_OP_WINDOW:
		op->u.window = c->u.window;
		op->slices = c->slices;
		break;
	case SL_OP_GROUPNORM:
		op->u.groupnorm = c->u.groupnorm;
		op->n_param = c->norm_bias ? 2 : 0;
		break;
	case SL_OP_REPEAT:
		op->u.repeat = c->u.repeat;
		op->n_param = 1;
		break;
	default:
		break;
	}
	for (int i = 0; i < op->n_param; i++)
		op->param[i] = i;
	if (c->kind == SL_OP_SELECT || c->kind == SL_OP_GATHER) {
		/* all tokens of a chunk, because the rig counts rows */
		op->out_shape = sl_shape2(rows, c->c);
		return SL_OK;
	}
	if (c->kind == SL_OP_TRANSPOSE) {
		op->u.transpose = c->u.transpose;
		op->out_shape = sl_shape3(rows, c->c, c->h);
		return SL_OK;
	}
	if (c->kind == SL_OP_ATTENTION)
		return attention_op(c, rows, op, fail);
	return sl_op_infer_shape(op, fail);
}

int64_t op_param_count(const struct sl_op *op, int index)
{
	const struct sl_conv_attr *conv = &op->u.conv;
	const struct sl_convt_attr *convt = &op->u.convt;

	if (op->kind == SL_OP_CONV2D)
		return index ? conv->out_c : (int64_t)conv->out_c * conv->kh * conv->kw * (conv->in_c / conv->groups);
	if (op->kind == SL_OP_CONVT2D)
		return index ? convt->out_c
			     : (int64_t)convt->in_c * convt->kh * convt->kw * (convt->out_c / convt->groups);
	if (op->kind == SL_OP_LINEAR)
		return index ? op->u.linear.out_f : (int64_t)op->u.linear.out_f * op->u.linear.in_f;
	if (op->kind == SL_OP_EMBEDDING)
		return (int64_t)op->u.embedding.rows * op->u.embedding.features;
	if (op->kind == SL_OP_LOOKUP)
		return (int64_t)op->u.lookup.rows * op->u.lookup.features;
	if (op->kind == SL_OP_REPEAT)
		return sl_shape_row(&op->out_shape);
	if (sl_op_is_norm(op->kind))
		return sl_op_normed(op);
	if (op->kind == SL_OP_GROUPNORM)
		return op->in_shape[0].dim[op->in_shape[0].ndim - 1];
	return op->u.bn.c;
}
