/* The vector types and functions that the body_*.h files use. The including file defines VL, the floats
 * of a register: 16 (AVX-512), 8 (AVX2) or 4 (any x86-64, arm64). `n` is a count of lanes in [1, VL]:
 * loads fill the other lanes with zero, stores leave the memory behind the n lanes untouched. Pointers
 * need no alignment, except those of `stream`. */
#include <stdint.h>
#include <string.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

typedef float vf __attribute__((vector_size(VL * 4)));
typedef float vf_mem __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(VL * 4)));

static inline vf ld(const float *p)
{
	return *(const vf_mem *)p;
}

static inline void st(float *p, vf v)
{
	*(vf_mem *)p = v;
}

/* A store that bypasses the cache, p aligned to a register; other threads see it after stream_end. */
static inline void stream(float *p, vf v)
{
#if VL == 16
	_mm512_stream_ps(p, (__m512)v);
#elif VL == 8
	_mm256_stream_ps(p, (__m256)v);
#elif defined(__aarch64__)
	*(vf *)(void *)p = v; /* arm64 has no such store of one register */
#else
	_mm_stream_ps(p, (__m128)v);
#endif
}

static inline void stream_end(void)
{
#if !defined(__aarch64__)
	_mm_sfence();
#endif
}

/* Prefetches into the L1 cache, which is faster than into L2. */
static inline void prefetch(const void *p)
{
	__builtin_prefetch(p, 0, 3);
}

static inline vf set1(float x)
{
	return x - (vf){0};
}

/* a where m is -1, b where m is 0 */
static inline vf where(vi m, vf a, vf b)
{
	return (vf)(((vi)a & m) | ((vi)b & ~m));
}

#if VL == 16
static inline vf ldn(const float *p, int n)
{
	return (vf)_mm512_maskz_loadu_ps((__mmask16)(0xffffu >> (16 - n)), p);
}

static inline void stn(float *p, vf v, int n)
{
	_mm512_mask_storeu_ps(p, (__mmask16)(0xffffu >> (16 - n)), (__m512)v);
}

/* a where a > b, else b: a NaN in b is returned. */
static inline vf larger(vf a, vf b)
{
	return (vf)_mm512_max_ps((__m512)a, (__m512)b);
}

static inline vf at_most(float high, vf x)
{
	return (vf)_mm512_min_ps(_mm512_set1_ps(high), (__m512)x);
}

/* g where z > low (and z < high), else 0 */
static inline vf where_above(vf g, vf z, float low)
{
	__mmask16 m = _mm512_cmp_ps_mask((__m512)z, _mm512_set1_ps(low), _CMP_GT_OQ);

	return (vf)_mm512_maskz_mov_ps(m, (__m512)g);
}

static inline vf choose_above(vf g, vf other, vf z, float low)
{
	__mmask16 m = _mm512_cmp_ps_mask((__m512)z, _mm512_set1_ps(low), _CMP_GT_OQ);

	return (vf)_mm512_mask_mov_ps((__m512)other, m, (__m512)g);
}

static inline vf where_between(vf g, vf z, float low, float high)
{
	__mmask16 m = _mm512_cmp_ps_mask((__m512)z, _mm512_set1_ps(low), _CMP_GT_OQ);

	m = _mm512_mask_cmp_ps_mask(m, (__m512)z, _mm512_set1_ps(high), _CMP_LT_OQ);
	return (vf)_mm512_maskz_mov_ps(m, (__m512)g);
}
#else
#if VL == 8
static inline __m256i lanes(int n)
{
	static const int32_t table[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

	return _mm256_loadu_si256((const __m256i *)(const void *)(table + 8 - n));
}

static inline vf ldn(const float *p, int n)
{
	return (vf)_mm256_maskload_ps(p, lanes(n));
}

static inline void stn(float *p, vf v, int n)
{
	_mm256_maskstore_ps(p, lanes(n), (__m256)v);
}

static inline vf larger(vf a, vf b)
{
	return (vf)_mm256_max_ps((__m256)a, (__m256)b);
}

static inline vf at_most(float high, vf x)
{
	return (vf)_mm256_min_ps(_mm256_set1_ps(high), (__m256)x);
}
#elif defined(__aarch64__)
static inline vf ldn(const float *p, int n)
{
	return (vf){p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, n > 3 ? p[3] : 0};
}

static inline void stn(float *p, vf v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = v[i];
}

/* For two zeros it returns b, as on x86: NEON's own maximum and minimum choose by sign. */
static inline vf larger(vf a, vf b)
{
	return (vf)vbslq_f32(vcgtq_f32((float32x4_t)a, (float32x4_t)b), (float32x4_t)a, (float32x4_t)b);
}

static inline vf at_most(float high, vf x)
{
	return (vf)vbslq_f32(vcltq_f32(vdupq_n_f32(high), (float32x4_t)x), vdupq_n_f32(high), (float32x4_t)x);
}
#else
static inline vf ldn(const float *p, int n)
{
	vf v = {0};

	memcpy(&v, p, (size_t)n * sizeof(float));
	return v;
}

static inline void stn(float *p, vf v, int n)
{
	memcpy(p, &v, (size_t)n * sizeof(float));
}

static inline vf larger(vf a, vf b)
{
	return (vf)_mm_max_ps((__m128)a, (__m128)b);
}

static inline vf at_most(float high, vf x)
{
	return (vf)_mm_min_ps(_mm_set1_ps(high), (__m128)x);
}
#endif

static inline vf where_above(vf g, vf z, float low)
{
	return (vf)((vi)g & (z > set1(low)));
}

static inline vf choose_above(vf g, vf other, vf z, float low)
{
	const vi above = z > set1(low);

	return (vf)(((vi)g & above) | ((vi)other & ~above));
}

static inline vf where_between(vf g, vf z, float low, float high)
{
	return (vf)((vi)g & (z > set1(low)) & (z < set1(high)));
}
#endif

/* A NaN in x is returned. */
static inline vf at_least(float low, vf x)
{
	return larger(set1(low), x);
}

static inline vf square_root(vf x)
{
#if VL == 16
	return (vf)_mm512_sqrt_ps((__m512)x);
#elif VL == 8
	return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__aarch64__)
	return (vf)vsqrtq_f32((float32x4_t)x);
#else
	return (vf)_mm_sqrt_ps((__m128)x);
#endif
}

/* n in [1, VL]: a full register is loaded or stored without a mask. */
static inline vf ldv(const float *p, int n)
{
	return n == VL ? ld(p) : ldn(p, n);
}

static inline void stv(float *p, vf v, int n)
{
	if (n == VL)
		st(p, v);
	else
		stn(p, v, n);
}

static inline int left(int64_t n)
{
	return n < VL ? (int)n : VL;
}

/* VL sums in double, to which sums of a few float terms are added. */
typedef double vd __attribute__((vector_size(VL * 4)));
typedef double vd_mem __attribute__((vector_size(VL * 4), aligned(8), may_alias));
typedef float vh __attribute__((vector_size(VL * 2)));

struct wide {
	vd low, high;
};

static inline void wide_add(struct wide *s, vf v)
{
	vh half[2];

	memcpy(half, &v, sizeof v);
	s->low += __builtin_convertvector(half[0], vd);
	s->high += __builtin_convertvector(half[1], vd);
}

/* The sums times `by`. */
static inline vf wide_scaled(const struct wide *s, double by)
{
	vh half[2] = {__builtin_convertvector(s->low * by, vh), __builtin_convertvector(s->high * by, vh)};
	vf v;

	memcpy(&v, half, sizeof v);
	return v;
}

/* p[i] += the first n sums. */
static inline void wide_put(double *p, const struct wide *s, int n)
{
	double sum[VL];

	if (n == VL) {
		*(vd_mem *)p += s->low;
		*(vd_mem *)(p + VL / 2) += s->high;
		return;
	}
	memcpy(sum, s, sizeof sum);
	for (int i = 0; i < n; i++)
		p[i] += sum[i];
}
